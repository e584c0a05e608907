// export.h: visibility and attributes, for every public header.
#ifndef TROUPE_EXPORT_H
#define TROUPE_EXPORT_H

// Every public declaration has one of these two. TROUPE_API: stable in this generation; programs
// compiled with its headers run with every later library of the same TROUPE_ABI, and a change of
// meaning comes with a new TROUPE_ABI. TROUPE_EXPERIMENTAL: may change with each minor version;
// CHANGELOG.md lists each change.
#define TROUPE_API __attribute__((visibility("default")))
#define TROUPE_EXPERIMENTAL TROUPE_API
#define TROUPE_MUST_USE __attribute__((warn_unused_result))
#define TROUPE_UNUSED __attribute__((unused))
#define TROUPE_PRINTF(text, rest) __attribute__((format(printf, text, rest)))

// Every static table that is compiled into user code (type, class, trainer) begins with this
// number, so that a library of another generation refuses it with an error text instead of
// misreading it.
#define TROUPE_ABI 2u

// Structs that a program fills, or has filled, carry their size, so that they can grow at their
// end: options have a `size` field; for outputs and arrays the macro passes it. A library writes no
// more than the program has room for, and refuses options longer than those it knows.

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
