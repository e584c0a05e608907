// fields.h: the field that a row names: where it lies, what it can hold, and numbers in it.
#ifndef TRP_FIELDS_H
#define TRP_FIELDS_H

#include <tune/space/space.h>

typedef struct trp_field_found {
    const troupe_type *type;           // Of the field, or of its items.
    size_t items;                      // It is a whole fixed array of that many; 0: a single value.
    char name[TRP_SPACE_NAME_MAX + 1]; // The row's, without spaces, and with numbers in brackets.
} trp_field_found;

// Finds the field that a row names ("rate", "plan.steps", "weights[2]"), and checks that it lies
// where the row says. TROUPE_INVALID says what is wrong, without the row's name.
troupe_status trp_field_find(const troupe_type *type, const troupe_param *param,
                             trp_field_found *found);

// Bools, integers and floats: what a double is put into. Enums are integers.
bool trp_field_is_number(const troupe_type *type);
// Whether a field of that type can hold the value; a float may round it, nothing else may.
bool trp_field_fits(const troupe_type *type, double value);
void trp_field_store(const troupe_type *type, void *field, double value);
double trp_field_load(const troupe_type *type, const void *field);

// The smallest float that is not below x, and the largest that is not above it.
float trp_float_from(double x);
float trp_float_to(double x);

#endif
