// json_canonical.c: the one form that all JSON texts of a value share, as in RFC 8785.
#include <runtime/codec/json_internal.h>

#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As ECMAScript writes numbers: the fewest digits that read back, an exponent from 1e21 and below
// 1e-6.
static troupe_status write_canonical_number(trp_json number, trp_buffer *out)
{
    bool negative = false;
    uint64_t amount = 0;
    double real = 0;
    if (trp_json_integer(number, &negative, &amount)) {
        trp_buffer_printf(out, "%s%llu", negative && amount > 0 ? "-" : "",
                          (unsigned long long)amount);
        return TROUPE_OK;
    }
    if (!trp_json_real(number, &real))
        return troupe_fail(TROUPE_MALFORMED, "JSON: %.*s is no number that a double can be",
                           (int)(number.size < 48 ? number.size : 48), number.at);
    char text[40], digits[24];
    for (int more = 0; more < 17; more++) {
        (void)snprintf(text, sizeof(text), "%.*e", more, fabs(real));
        if (strtod(text, NULL) == fabs(real))
            break;
    }
    int count = 0, exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10) + 1;
    for (const char *at = text; *at != 'e'; at++) {
        if (trp_json_is_digit(*at))
            digits[count++] = *at;
    }
    trp_buffer_append(out, "-", real < 0);
    if (exponent > 21 || exponent <= -6) {
        trp_buffer_append(out, digits, 1);
        trp_buffer_append(out, ".", count > 1);
        trp_buffer_append(out, digits + 1, (size_t)count - 1);
        trp_buffer_printf(out, "e%+d", exponent - 1);
    } else if (exponent <= 0) {
        trp_buffer_printf(out, "0.%.*s%.*s", -exponent, "00000000", count, digits);
    } else if (count <= exponent) {
        trp_buffer_printf(out, "%.*s%.*s", count, digits, exponent - count,
                          "000000000000000000000");
    } else {
        trp_buffer_printf(out, "%.*s.%.*s", exponent, digits, count - exponent, digits + exponent);
    }
    return TROUPE_OK;
}

static void write_canonical_text(trp_json text, trp_buffer *out)
{
    const char *at = text.at + 1;
    trp_buffer_append(out, "\"", 1);
    for (long point; (point = trp_json_code_point(&at, trp_json_end(text))) >= 0;) {
        static const char named[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
        const char *which = point > 0 && point < 0x80 ? strchr(named, (int)point) : NULL;
        char bytes[4];
        if (which != NULL)
            trp_buffer_printf(out, "\\%c", letters[which - named]);
        else if (point < 0x20)
            trp_buffer_printf(out, "\\u%04lx", point);
        else
            trp_buffer_append(out, bytes, trp_json_encode(point, bytes));
    }
    trp_buffer_append(out, "\"", 1);
}

typedef struct member {
    trp_json name, value;
} member;

static int compare_members(const void *a, const void *b)
{
    trp_json x = ((const member *)a)->name, y = ((const member *)b)->name;
    return trp_json_compare(x.at + 1, trp_json_end(x), y.at + 1, trp_json_end(y));
}

static troupe_status write_canonical(trp_json value, trp_buffer *out, int depth);

static troupe_status write_canonical_object(trp_json object, trp_buffer *out, int depth)
{
    size_t count = 0, i = 0;
    member next;
    for (trp_json at = {0}; trp_json_next_member(object, &at, &next.name, &next.value);)
        count++;
    member *members = (member *)trp_alloc((count + 1) * sizeof(member));
    if (members == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu members of JSON", count);
    for (trp_json at = {0}; trp_json_next_member(object, &at, &next.name, &next.value);)
        members[i++] = next;
    qsort(members, count, sizeof(*members), compare_members);
    troupe_status status = TROUPE_OK;
    trp_buffer_append(out, "{", 1);
    for (i = 0; i < count && status == TROUPE_OK; i++) {
        trp_buffer_append(out, ",", i > 0);
        write_canonical_text(members[i].name, out);
        trp_buffer_append(out, ":", 1);
        status = write_canonical(members[i].value, out, depth + 1);
    }
    trp_buffer_append(out, "}", 1);
    trp_free(members);
    return status;
}

static troupe_status write_canonical(trp_json value, trp_buffer *out, int depth)
{
    if (depth > TRP_JSON_DEPTH_MAX)
        return troupe_fail(TROUPE_MALFORMED, "JSON: nested deeper than %d levels",
                           TRP_JSON_DEPTH_MAX);
    if (trp_json_is_object(value))
        return write_canonical_object(value, out, depth);
    if (trp_json_is_text(value)) {
        write_canonical_text(value, out);
    } else if (trp_json_is_array(value)) {
        trp_buffer_append(out, "[", 1);
        bool first = true;
        for (trp_json item = {0}; trp_json_next_item(value, &item); first = false) {
            trp_buffer_append(out, ",", !first);
            TROUPE_TRY(write_canonical(item, out, depth + 1));
        }
        trp_buffer_append(out, "]", 1);
    } else if (trp_json_begins(value, '-') || (value.size > 0 && trp_json_is_digit(value.at[0]))) {
        return write_canonical_number(value, out);
    } else {
        trp_buffer_append(out, value.at, value.size);
    }
    return TROUPE_OK;
}

troupe_status trp_json_canonical(trp_json value, trp_buffer *out)
{
    TROUPE_TRY(write_canonical(value, out, 0));
    return out->failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a JSON text") : TROUPE_OK;
}

bool trp_json_is_same(trp_json one, trp_json other)
{
    trp_buffer first = {0}, second = {0};
    bool same = trp_json_canonical(one, &first) == TROUPE_OK &&
                trp_json_canonical(other, &second) == TROUPE_OK && first.size == second.size &&
                memcmp(first.data, second.data, first.size) == 0;
    trp_buffer_free(&first);
    trp_buffer_free(&second);
    return same;
}
