// wire.h: types as tables. TROUPE_STRUCT declares a struct and one constant table of its fields;
// packing, unpacking, schema hashes, checkpoints, printing and search spaces all use that table.
//
//     TROUPE_STRUCT(reading,
//         (troupe_text, sensor),            // string
//         (double, position, 3),            // fixed array: double position[3]
//         (char, place, 32),                // text of at most 31 bytes, stored in the struct
//         (troupe_array_double, samples),   // counted array: { items, count }
//         (troupe_ref, picture));           // reference to an object or to a call's result
//
// Field types: bool, int8_t ... int64_t, uint8_t ... uint64_t, short, int, unsigned, long, size_t,
// float, double, enums (see TROUPE_ENUM), troupe_text, troupe_bytes, troupe_tensor (tensor.h),
// troupe_ref, troupe_actor, a typed handle (counter_actor), another TROUPE_STRUCT, and
// troupe_array_T of any of these. Up to 64 fields in a struct.
//
// Ownership: the pointers inside a value (texts, bytes, arrays) are borrowed. A method may read
// those of its arguments until it returns; AddressSanitizer reports the use of one that was kept
// longer. Values that the library returns (troupe_get, troupe_restore, troupe_unpack) point into
// the calling thread's arena: inside a method they live until the method returns; on other threads
// until that thread calls troupe_arena_reset or ends.
#ifndef TROUPE_WIRE_H
#define TROUPE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <troupe/detail/each.h>
#include <troupe/status.h>

TROUPE_BEGIN_C

typedef enum troupe_kind {
    TROUPE_KIND_NONE, // No value.
    TROUPE_KIND_BOOL,
    TROUPE_KIND_INT,   // Signed; the size says the width.
    TROUPE_KIND_UINT,  // Unsigned; the size says the width.
    TROUPE_KIND_FLOAT, // IEEE 754, 4 or 8 bytes.
    TROUPE_KIND_TEXT,
    TROUPE_KIND_BYTES,
    TROUPE_KIND_RECORD,
    TROUPE_KIND_ARRAY, // Counted: a pointer to items and their count.
    TROUPE_KIND_REF,
    TROUPE_KIND_ACTOR,
    TROUPE_KIND_TENSOR, // Numbers with a shape: tensor.h.
    TROUPE_KIND_CHAR,   // A fixed array of these is a text; a single one is a number.
} troupe_kind;

typedef struct troupe_type troupe_type;

typedef struct troupe_field {
    const char *name;
    size_t offset;
    const troupe_type *type;
    size_t count; // 0: a single value; n: a fixed array of n values.
} troupe_field;

// A type's description: static, never freed. Users get one from TROUPE_STRUCT.
struct troupe_type {
    uint32_t abi; // TROUPE_ABI
    troupe_kind kind;
    const char *name;
    size_t size;                // sizeof the C type
    const troupe_field *fields; // For a record.
    size_t field_count;
    const troupe_type *item; // For a counted array.
    uint64_t *hash;          // Caches the schema hash; 0: not yet computed.
    const void *reserved_[2];
};

// A NUL-terminated string in UTF-8, or NULL. Packed as a MessagePack string (NULL as nil); a packed
// string that contains a NUL is refused.
typedef const char *troupe_text;

// Uninterpreted bytes. `data` may be NULL only if `size` is 0.
typedef struct troupe_bytes {
    const void *data;
    size_t size;
} troupe_bytes;

// No arguments, or no result: (counter_reset, troupe_none, troupe_none).
typedef struct troupe_none {
    char unused_;
} troupe_none;

// A reference: the future of a call, or an object of the store. It carries the schema hash of its
// value, so that it cannot be read as another type. A plain value: copying it does not copy the
// hold behind it, which exactly one troupe_get or troupe_ref_drop releases.
typedef struct troupe_ref {
    uint64_t id; // 0: no reference.
    uint64_t schema;
} troupe_ref;

// The address of an actor: a plain value that owns nothing and may be copied, sent in messages and
// compared by its first four fields. The last two hold per-call options, see troupe_with.
typedef struct troupe_actor {
    uint64_t id; // Of the actor within its process; 0: no actor, or one that failed to start.
    uint64_t incarnation; // Of its process: a number that no other start of a process has.
    uint32_t node;        // The node of that process (0: this one),
    uint32_t process;     // and its index in that node's process table.
    uint32_t deadline_ms; // For every call made through this copy; 0: none.
    uint32_t flags;       // TROUPE_CALL_*, for every call made through this copy.
} troupe_actor;

#define TROUPE_ARRAY_DECLARE_(T)                                                                   \
    typedef struct troupe_array_##T {                                                              \
        const T *items;                                                                            \
        size_t count;                                                                              \
    } troupe_array_##T
#define TROUPE_PRIMITIVE_(T)                                                                       \
    TROUPE_ARRAY_DECLARE_(T);                                                                      \
    extern TROUPE_API const troupe_type troupe_type_##T, troupe_type_troupe_array_##T

TROUPE_PRIMITIVE_(int8_t);
TROUPE_PRIMITIVE_(int16_t);
TROUPE_PRIMITIVE_(int32_t);
TROUPE_PRIMITIVE_(int64_t);
TROUPE_PRIMITIVE_(uint8_t);
TROUPE_PRIMITIVE_(uint16_t);
TROUPE_PRIMITIVE_(uint32_t);
TROUPE_PRIMITIVE_(uint64_t);
TROUPE_PRIMITIVE_(int);
TROUPE_PRIMITIVE_(size_t);
TROUPE_PRIMITIVE_(char);
TROUPE_PRIMITIVE_(float);
TROUPE_PRIMITIVE_(double);
TROUPE_PRIMITIVE_(troupe_text);
TROUPE_PRIMITIVE_(troupe_bytes);
TROUPE_PRIMITIVE_(troupe_ref);
TROUPE_PRIMITIVE_(troupe_actor);
typedef struct troupe_array_bool {
    const bool *items;
    size_t count;
} troupe_array_bool;
extern TROUPE_API const troupe_type troupe_type_bool, troupe_type_troupe_array_bool;
extern TROUPE_API const troupe_type troupe_type_troupe_none;
// In C, bool is a macro for _Bool, and is expanded before it reaches the ## below.
#define troupe_type__Bool troupe_type_bool

// Other names of these types, for the integer widths of this ABI.
#define troupe_type_short troupe_type_int16_t
#define troupe_type_unsigned troupe_type_uint32_t
#define troupe_type_long troupe_type_int64_t
TROUPE_STATIC_ASSERT_(sizeof(short) == 2 && sizeof(unsigned) == 4 && sizeof(long) == 8,
                      "an LP64 machine");

#define TROUPE_FIELD_DECLARE_1(T, name, end) T name;
#define TROUPE_FIELD_DECLARE_2(T, name, n, end) T name[n];
#define TROUPE_FIELD_DECLARE_(S, T, name, ...)                                                     \
    TROUPE_CAT(TROUPE_FIELD_DECLARE_, TROUPE_COUNT(__VA_ARGS__))(T, name, __VA_ARGS__)
#define TROUPE_FIELD_COUNT_1(end) 0
#define TROUPE_FIELD_COUNT_2(n, end) (n)
#define TROUPE_FIELD_ROW_(S, T, name, ...)                                                         \
    {#name, offsetof(S, name), &troupe_type_##T,                                                   \
     TROUPE_CAT(TROUPE_FIELD_COUNT_, TROUPE_COUNT(__VA_ARGS__))(__VA_ARGS__)},

// clang-format off
// Declares struct S with the given fields, its table troupe_type_S, and troupe_array_S.
#define TROUPE_STRUCT(S, ...)                                                                      \
    typedef struct S {                                                                             \
        TROUPE_EACH(TROUPE_FIELD_DECLARE_, S, __VA_ARGS__)                                         \
    } S;                                                                                           \
    TROUPE_ARRAY_DECLARE_(S);                                                                      \
    static const troupe_field troupe_fields_##S[] = {                                              \
        TROUPE_EACH(TROUPE_FIELD_ROW_, S, __VA_ARGS__)};                                           \
    TROUPE_UNUSED static uint64_t troupe_hash_##S[2];                                              \
    TROUPE_UNUSED static const troupe_type troupe_type_##S = {                                     \
        TROUPE_ABI, TROUPE_KIND_RECORD, #S, sizeof(S), troupe_fields_##S,                          \
        TROUPE_COUNT(__VA_ARGS__), NULL, &troupe_hash_##S[0], {NULL}};                                     \
    TROUPE_UNUSED static const troupe_type troupe_type_troupe_array_##S = {                        \
        TROUPE_ABI, TROUPE_KIND_ARRAY, "troupe_array_" #S, sizeof(troupe_array_##S), NULL, 0,      \
        &troupe_type_##S, &troupe_hash_##S[1], {NULL}}
// clang-format on

// Makes an enum (given by the name of its typedef) a type for fields, arguments and results:
//     typedef enum color { RED, GREEN } color;
//     TROUPE_ENUM(color);
#define TROUPE_ENUM(E)                                                                             \
    TROUPE_ARRAY_DECLARE_(E);                                                                      \
    TROUPE_UNUSED static uint64_t troupe_hash_##E[2];                                              \
    TROUPE_UNUSED static const troupe_type troupe_type_##E = {                                     \
        TROUPE_ABI, (E)-1 < (E)1 ? TROUPE_KIND_INT : TROUPE_KIND_UINT,                             \
        #E,         sizeof(E),                                                                     \
        NULL,       0,                                                                             \
        NULL,       &troupe_hash_##E[0],                                                           \
        {NULL}};                                                                                   \
    TROUPE_UNUSED static const troupe_type troupe_type_troupe_array_##E = {                        \
        TROUPE_ABI,                                                                                \
        TROUPE_KIND_ARRAY,                                                                         \
        "troupe_array_" #E,                                                                        \
        sizeof(troupe_array_##E),                                                                  \
        NULL,                                                                                      \
        0,                                                                                         \
        &troupe_type_##E,                                                                          \
        &troupe_hash_##E[1],                                                                       \
        {NULL}}

// Evaluates to p; compiles without a warning only if p is a T *.
#define TROUPE_POINTER(T, p) (1 ? (p) : (T *)0)

// The schema hash of a type: equal if and only if (collisions of 64 bits aside) names, order, kinds
// and widths of all fields, nested ones included, are equal. FNV-1a over that description. Never 0.
TROUPE_API uint64_t troupe_type_hash(const troupe_type *type);

// Packs `value` of `type` as MessagePack into `out` (a record is an array of its fields in order; a
// counted array of numbers is a bin of little-endian items). *size is set to the packed size even
// if that is above `capacity`; the contents of `out` are then undefined and TROUPE_TOO_LARGE is
// returned. `out` may be NULL if `capacity` is 0.
TROUPE_API troupe_status troupe_pack_as(const troupe_type *type, const void *value, void *out,
                                        size_t capacity, size_t *size);

// Reads `size` bytes at `data` into `value` of `type`. Anything but exactly one well-formed value
// of that type is refused with TROUPE_MALFORMED and an error text that names the field; `value` is
// set only on success. Texts, bytes and arrays are copied into the thread's arena.
TROUPE_API troupe_status troupe_unpack_as(const troupe_type *type, const void *data, size_t size,
                                          void *value);

// Writes `value` of `type` as one line of JSON-like text, for people to read ({"rate": 0.1}), cut
// at `capacity` - 1 bytes and always terminated. Returns the length that the whole text has.
TROUPE_API size_t troupe_print_as(const troupe_type *type, const void *value, char *out,
                                  size_t capacity);

#define troupe_pack(T, value, out, capacity, size)                                                 \
    troupe_pack_as(&troupe_type_##T, TROUPE_POINTER(const T, value), (out), (capacity), (size))
#define troupe_unpack(T, data, size, value)                                                        \
    troupe_unpack_as(&troupe_type_##T, (data), (size), TROUPE_POINTER(T, value))
#define troupe_print(T, value, out, capacity)                                                      \
    troupe_print_as(&troupe_type_##T, TROUPE_POINTER(const T, value), (out), (capacity))

// Returns `size` bytes (at least 16-byte aligned, zeroed) from the calling thread's arena: for
// texts and arrays of a method's result. Inside a method they live until its result has been sent,
// elsewhere until troupe_arena_reset. NULL when memory is short.
TROUPE_API void *troupe_arena_alloc(size_t size);

// Copies `text` into the calling thread's arena. NULL when memory is short or `text` is NULL.
TROUPE_API char *troupe_arena_text(const char *text);

// Frees everything in the arena of the calling thread. Inside a method it does nothing. The arena
// of a thread that never calls it grows: at 64 MiB the library warns once, and again at the end if
// TROUPE_LEAKS is set.
TROUPE_API void troupe_arena_reset(void);

TROUPE_END_C

#endif
