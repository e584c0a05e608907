// export.h: what every public header needs of the compiler: visibility and attributes.
#ifndef TROUPE_EXPORT_H
#define TROUPE_EXPORT_H

// One of these two stands on every public declaration. TROUPE_API: stable in this generation; what
// is compiled with its headers runs with every later library of the same TROUPE_ABI, and a change
// of meaning comes with another one. TROUPE_EXPERIMENTAL: may change with each minor version, and
// is listed in CHANGELOG.md when it does.
#define TROUPE_API __attribute__((visibility("default")))
#define TROUPE_EXPERIMENTAL TROUPE_API
#define TROUPE_MUST_USE __attribute__((warn_unused_result))
#define TROUPE_UNUSED __attribute__((unused))
#define TROUPE_PRINTF(text, rest) __attribute__((format(printf, text, rest)))

// Every static table that user code compiles in (type, class, trainer) begins with this number, so
// that a library of another generation refuses it in a sentence instead of misreading it.
#define TROUPE_ABI 2u

// Structs that a program fills, or has filled, know their size: options have `size`, outputs and
// arrays are passed with it by their macro. So they can grow at their end: a library writes no more
// than the program has room for, and refuses options that are longer than it knows.

#ifdef __cplusplus
#define TROUPE_BEGIN_C extern "C" {
#define TROUPE_END_C }
#define TROUPE_STATIC_ASSERT_ static_assert
#else
#define TROUPE_BEGIN_C
#define TROUPE_END_C
#define TROUPE_STATIC_ASSERT_ _Static_assert
#endif

#endif
