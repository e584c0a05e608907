// class.h: the classes that this process knows, and what is computed once for each: schema hashes
// and which of their types need more than a memcpy.
#ifndef TRP_CLASS_H
#define TRP_CLASS_H

#include <stdbool.h>
#include <troupe/actor.h>

// What a value's type asks of whoever moves it.
typedef struct trp_shape {
    const troupe_type *type;
    bool flat; // A memcpy is a copy.
    bool refs; // It can hold references.
    // It is flat and means the same in every process of a node: neither references nor handles
    // (whose options are the sender's own affair) are in it.
    bool image;
    bool held; // But for references it would be that, and they can be in it.
} trp_shape;

enum { TRP_PLAIN_RESULT = 16 }; // Bytes that the result of a plain method has at most.

typedef struct trp_method {
    const troupe_method *row;
    uint64_t hash; // Of name, arguments and result.
    trp_shape args, result;
    // It has no options, its arguments are a small flat value, its result is a number or two, and
    // neither has references: a call of it is made, run and freed by copies alone.
    bool plain;
} trp_method;

typedef struct trp_class {
    const troupe_class *row;
    uint64_t hash; // Of name, init arguments and all methods.
    trp_shape init;
    // Frees what a state has besides, when its actor was killed and has no deinit: of the library's
    // own classes, whose killing must not cost memory. NULL: nothing.
    void (*discard)(void *self);
    struct trp_class *next_row, *next; // In the registry.
    trp_method methods[];
} trp_class;

// What is known of a class; registers it if it is not known yet. NULL with the last error set.
const trp_class *trp_class_of(const troupe_class *row);
// Gives a class of the library its discard, before main.
void trp_class_discards(const troupe_class *row, void (*discard)(void *self));
// The class of that name and, unless 0, that hash. NULL with the last error set: not found (the
// sentence lists what is known), or known with other methods.
const trp_class *trp_class_named(const char *name, uint64_t hash);
// The method of that name. NULL with the last error set (the sentence lists the class's methods).
const trp_method *trp_class_method(const trp_class *known, const char *name);

trp_shape trp_shape_of(const troupe_type *type);
// Refuses a type whose table was compiled for another generation of the library.
troupe_status trp_type_check(const troupe_type *type);
// Remembers the type that goes with a hash, for messages and for untyped readers. Returns the hash.
uint64_t trp_type_note(const troupe_type *type);
// The same, and shows its name to who looks at the store's objects.
uint64_t trp_type_show(const troupe_type *type);
const troupe_type *trp_type_noted(uint64_t hash); // NULL: none was noted.
// The name of the type with that hash, or its number if none was noted.
const char *trp_type_label(uint64_t hash, char out[64]);
// About how many bytes a value takes, with all that it points to.
size_t trp_value_weight(const troupe_type *type, const void *value);

#endif
