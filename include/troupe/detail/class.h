// class.h: making a class of a state type and its methods. Part of actor.h.
//
// Each row of a class is checked before it is used, so that a mistake in it gives one error that
// names the method. Names of parameters end in an underscore, so that they cannot clash with a
// user's types.
#ifndef TROUPE_DETAIL_CLASS_H
#define TROUPE_DETAIL_CLASS_H

#include <troupe/actor.h>

#pragma GCC system_header

// ---- one method: its row of the class is (method, arguments, result, option...)

#define TROUPE_IS_METHOD_(m, self, args, result)                                                   \
    __builtin_types_compatible_p(__typeof__(&m), troupe_status (*)(self, args, result))
#define TROUPE_METHOD_CHECK_(C, m, A, R)                                                           \
    _Static_assert(TROUPE_IS_METHOD_(m, C *, const A *, R *) ||                                    \
                       TROUPE_IS_METHOD_(m, const C *, const A *, R *) ||                          \
                       TROUPE_IS_METHOD_(m, void *, const A *, R *) ||                             \
                       TROUPE_IS_METHOD_(m, void *, const void *, void *),                         \
                   "a method of " #C " must be: troupe_status " #m "(" #C " *self, const " #A      \
                   " *args, " #R " *result)")

// Tells a complete row from one with too few items; a row has up to 8, and an empty one at its end.
#define TROUPE_ROW_KIND_(a1, a2, a3, a4, a5, a6, a7, a8, a9, kind, ...) kind
#define TROUPE_ROW_KIND_OF_(...)                                                                   \
    TROUPE_ROW_KIND_(__VA_ARGS__, WHOLE_, WHOLE_, WHOLE_, WHOLE_, WHOLE_, WHOLE_, SHORT_, SHORT_,  \
                     SHORT_, )

#define TROUPE_METHOD_STUB_(C, n, ...)                                                             \
    TROUPE_CAT(TROUPE_METHOD_, TROUPE_ROW_KIND_OF_(__VA_ARGS__))(C, n, __VA_ARGS__)
#define TROUPE_METHOD_WHOLE_(C, n, m, A, R, ...)                                                   \
    static troupe_status troupe_run_##C##_##n(void *troupe_self_, const void *troupe_args_,        \
                                              void *troupe_result_)                                \
    {                                                                                              \
        TROUPE_METHOD_CHECK_(C, m, A, R);                                                          \
        return ((troupe_status(*)(C *, const A *, R *))(void (*)(void))m)(                         \
            (C *)troupe_self_, (const A *)troupe_args_, (R *)troupe_result_);                      \
    }                                                                                              \
    TROUPE_METHOD_NAME_(C, n, m, A)
#define TROUPE_METHOD_SHORT_(C, n, m, ...)                                                         \
    static troupe_status troupe_run_##C##_##n(void *troupe_self_, const void *troupe_args_,        \
                                              void *troupe_result_)                                \
    {                                                                                              \
        _Static_assert(0, "a method of " #C " is given as (" #m ", arguments, result)");           \
        return troupe_self_ && troupe_args_ && troupe_result_ ? TROUPE_OK : TROUPE_INVALID;        \
    }                                                                                              \
    TROUPE_METHOD_NAME_(C, n, m, troupe_none)
// What calls need of a method, under one name, so that a second method of that name gives one
// error.
#define TROUPE_METHOD_NAME_(C, n, m, A)                                                            \
    TROUPE_UNUSED static const struct {                                                            \
        const troupe_class *class_;                                                                \
        size_t index;                                                                              \
        C##_actor *handle; /* For their types. */                                                  \
        const A *arguments;                                                                        \
    } troupe_method_##m = {&troupe_class_##C, troupe_count_##C - n, NULL, NULL};
#define TROUPE_METHOD_HANDLE_(m) __typeof__(*troupe_method_##m.handle)
#define TROUPE_METHOD_ARGUMENTS_(m) __typeof__(*troupe_method_##m.arguments)
#define TROUPE_METHOD_(m) troupe_method_##m.class_, troupe_method_##m.index

// clang-format off
#define TROUPE_METHOD_ROW_(C, n, ...)                                                              \
    TROUPE_CAT(TROUPE_ROW_, TROUPE_ROW_KIND_OF_(__VA_ARGS__))(C, n, __VA_ARGS__)
#define TROUPE_ROW_WHOLE_(C, n, m, A, R, ...)                                                       \
    {.name = #m, .run = troupe_run_##C##_##n, .args = &troupe_type_##A,                            \
     .result = &troupe_type_##R, __VA_ARGS__},
#define TROUPE_ROW_SHORT_(C, n, m, ...) {.name = #m, .run = troupe_run_##C##_##n},

// ---- a class

#define TROUPE_CLASS_(C, INIT_T, INIT_F, DEINIT_F, ...)                                            \
    TROUPE_HANDLE_(C)                                                                              \
    TROUPE_CLASS_BODY_(C, INIT_T, INIT_F, DEINIT_F, __VA_ARGS__)

#define TROUPE_HANDLE_(C)                                                                          \
    typedef struct C##_actor {                                                                     \
        troupe_actor address;                                                                      \
    } C##_actor;                                                                                   \
    TROUPE_ARRAY_DECLARE_(C##_actor);                                                              \
    TROUPE_UNUSED static uint64_t troupe_hash_##C##_actor[2];                                      \
    TROUPE_UNUSED static const troupe_type troupe_type_##C##_actor = {                             \
        TROUPE_ABI, TROUPE_KIND_ACTOR, #C "_actor", sizeof(C##_actor), NULL, 0, NULL,              \
        &troupe_hash_##C##_actor[0], {NULL}};                                                              \
    TROUPE_UNUSED static const troupe_type troupe_type_troupe_array_##C##_actor = {                \
        TROUPE_ABI, TROUPE_KIND_ARRAY, "troupe_array_" #C "_actor",                                \
        sizeof(troupe_array_##C##_actor), NULL, 0, &troupe_type_##C##_actor,                       \
        &troupe_hash_##C##_actor[1], {NULL}};

#define TROUPE_CLASS_BODY_(C, INIT_T, INIT_F, DEINIT_F, ...)                                       \
    typedef INIT_T troupe_init_args_##C;                                                           \
    static const troupe_class troupe_class_##C;                                                    \
    enum { troupe_count_##C = TROUPE_COUNT(__VA_ARGS__) };                                         \
    TROUPE_NUMBERED(TROUPE_METHOD_STUB_, C, __VA_ARGS__)                                           \
    static const troupe_method troupe_methods_##C[] = {                                            \
        TROUPE_NUMBERED(TROUPE_METHOD_ROW_, C, __VA_ARGS__)};                                      \
    static const troupe_class troupe_class_##C = {                                                 \
        TROUPE_ABI, #C, sizeof(C), troupe_methods_##C, troupe_count_##C,                           \
        &troupe_type_##INIT_T, INIT_F, DEINIT_F, {NULL}};                                                  \
    __attribute__((constructor)) static void troupe_register_##C(void)                             \
    {                                                                                              \
        (void)troupe_class_register(&troupe_class_##C);                                            \
    }                                                                                              \
    _Static_assert(sizeof(C) > 0, #C)
// clang-format on

// TROUPE_ACTOR(C, (method, args, result), ...): makes class C from the state type C and up to 64
// methods `troupe_status method(C *self, const args *, result *)`, and the handle type C_actor.
// A header shared by several files may hold it if the methods are not static.
#define TROUPE_ACTOR(C, ...) TROUPE_CLASS_(C, troupe_none, NULL, NULL, __VA_ARGS__)

// TROUPE_ACTOR_INIT(C, (init, args), deinit, (method, args, result), ...): the same with
// `troupe_status init(C *self, const args *)`, run first in the actor's own process (a status other
// than TROUPE_OK fails the spawn), and `void deinit(C *self)`, run when the actor ends in order;
// NULL: there is nothing to undo.
#define TROUPE_ACTOR_INIT(C, init, deinit, ...)                                                    \
    TROUPE_CAT(TROUPE_INIT_, TROUPE_INIT_KIND_OF_(TROUPE_UNPACK init))(C, init, deinit, __VA_ARGS__)
// Whether the init has its type of arguments.
#define TROUPE_INIT_KIND_(a1, a2, kind, ...) kind
#define TROUPE_INIT_KIND_OF_(...) TROUPE_INIT_KIND_(__VA_ARGS__, WHOLE_, SHORT_, )
#define TROUPE_INIT_SHORT_(C, init, deinit, ...)                                                   \
    _Static_assert(0, "the init of " #C " is given as (function, arguments), not as " #init);      \
    TROUPE_ACTOR(C, __VA_ARGS__)
#define TROUPE_INIT_WHOLE_(C, init, deinit, ...)                                                   \
    TROUPE_ACTOR_INIT_(C, deinit, TROUPE_UNPACK init, __VA_ARGS__)
#define TROUPE_ACTOR_INIT_(...) TROUPE_ACTOR_INIT__(__VA_ARGS__)
#define TROUPE_ACTOR_INIT__(C, deinit, init, A, ...)                                               \
    static troupe_status troupe_init_##C(void *troupe_self_, const void *troupe_args_)             \
    {                                                                                              \
        return init((C *)troupe_self_, (const A *)troupe_args_);                                   \
    }                                                                                              \
    static void troupe_deinit_##C(void *troupe_self_)                                              \
    {                                                                                              \
        TROUPE_DEINIT_OF_(deinit)((C *)troupe_self_);                                              \
    }                                                                                              \
    TROUPE_CLASS_(C, A, troupe_init_##C, troupe_deinit_##C, __VA_ARGS__)

TROUPE_UNUSED static inline void troupe_undo_nothing_(void *self)
{
    (void)self;
}
#define TROUPE_DEINIT_OF_(deinit)                                                                  \
    __builtin_choose_expr(__builtin_types_compatible_p(__typeof__(deinit), __typeof__(NULL)),      \
                          troupe_undo_nothing_, deinit)

// TROUPE_ACTOR_STATIC(C, (method, args, result), ...): as TROUPE_ACTOR, but stands before the
// methods, which it declares as static functions: so they may use C_actor, and call methods of
// their own class.
#define TROUPE_ACTOR_STATIC(C, ...)                                                                \
    TROUPE_HANDLE_(C)                                                                              \
    TROUPE_EACH(TROUPE_METHOD_DECLARE_, C, __VA_ARGS__)                                            \
    TROUPE_CLASS_BODY_(C, troupe_none, NULL, NULL, __VA_ARGS__)
#define TROUPE_METHOD_DECLARE_(C, ...)                                                             \
    TROUPE_CAT(TROUPE_DECLARE_, TROUPE_ROW_KIND_OF_(__VA_ARGS__))(C, __VA_ARGS__)
#define TROUPE_DECLARE_WHOLE_(C, m, A, R, ...) static troupe_status m(C *, const A *, R *);
#define TROUPE_DECLARE_SHORT_(C, m, ...)

#endif
