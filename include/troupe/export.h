// export.h: what every public header needs of the compiler: visibility and attributes.
#ifndef TROUPE_EXPORT_H
#define TROUPE_EXPORT_H

#define TROUPE_API __attribute__((visibility("default")))
#define TROUPE_MUST_USE __attribute__((warn_unused_result))
#define TROUPE_UNUSED __attribute__((unused))
#define TROUPE_PRINTF(text, rest) __attribute__((format(printf, text, rest)))

// Every static table that user code compiles in (type, class, trainer) begins with this number, so
// that a library of another generation refuses it in a sentence instead of misreading it.
#define TROUPE_ABI 1u

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
