// each.h: the only preprocessor tricks of the library.
//
// TROUPE_EACH(M, c, (a, b), (d, e)) is M(c, a, b, ) M(c, d, e, ): every row's macro gets the fixed
// first argument c, the row's items, and one empty last argument, so that a `...` at the end of M
// is never empty (ISO C before C23 forbids that). Up to 64 rows; more is a compile-time error that
// mentions TROUPE_EACH_TOO_MANY.
#ifndef TROUPE_DETAIL_EACH_H
#define TROUPE_DETAIL_EACH_H

#define TROUPE_CAT_(a, b) a##b
#define TROUPE_CAT(a, b) TROUPE_CAT_(a, b)
#define TROUPE_UNPACK(...) __VA_ARGS__
#define TROUPE_APPLY(M, args) M args

// clang-format off
#define TROUPE_COUNT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, a65, n, ...) n
// The number of arguments, 1 to 64.
#define TROUPE_COUNT(...) TROUPE_COUNT_(__VA_ARGS__, TOO_MANY, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TROUPE_EACH_1(M, c, a) TROUPE_APPLY(M, (c, TROUPE_UNPACK a, ))
#define TROUPE_EACH_2(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_1(M, c, __VA_ARGS__)
#define TROUPE_EACH_3(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_2(M, c, __VA_ARGS__)
#define TROUPE_EACH_4(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_3(M, c, __VA_ARGS__)
#define TROUPE_EACH_5(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_4(M, c, __VA_ARGS__)
#define TROUPE_EACH_6(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_5(M, c, __VA_ARGS__)
#define TROUPE_EACH_7(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_6(M, c, __VA_ARGS__)
#define TROUPE_EACH_8(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_7(M, c, __VA_ARGS__)
#define TROUPE_EACH_9(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_8(M, c, __VA_ARGS__)
#define TROUPE_EACH_10(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_9(M, c, __VA_ARGS__)
#define TROUPE_EACH_11(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_10(M, c, __VA_ARGS__)
#define TROUPE_EACH_12(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_11(M, c, __VA_ARGS__)
#define TROUPE_EACH_13(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_12(M, c, __VA_ARGS__)
#define TROUPE_EACH_14(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_13(M, c, __VA_ARGS__)
#define TROUPE_EACH_15(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_14(M, c, __VA_ARGS__)
#define TROUPE_EACH_16(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_15(M, c, __VA_ARGS__)
#define TROUPE_EACH_17(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_16(M, c, __VA_ARGS__)
#define TROUPE_EACH_18(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_17(M, c, __VA_ARGS__)
#define TROUPE_EACH_19(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_18(M, c, __VA_ARGS__)
#define TROUPE_EACH_20(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_19(M, c, __VA_ARGS__)
#define TROUPE_EACH_21(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_20(M, c, __VA_ARGS__)
#define TROUPE_EACH_22(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_21(M, c, __VA_ARGS__)
#define TROUPE_EACH_23(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_22(M, c, __VA_ARGS__)
#define TROUPE_EACH_24(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_23(M, c, __VA_ARGS__)
#define TROUPE_EACH_25(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_24(M, c, __VA_ARGS__)
#define TROUPE_EACH_26(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_25(M, c, __VA_ARGS__)
#define TROUPE_EACH_27(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_26(M, c, __VA_ARGS__)
#define TROUPE_EACH_28(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_27(M, c, __VA_ARGS__)
#define TROUPE_EACH_29(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_28(M, c, __VA_ARGS__)
#define TROUPE_EACH_30(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_29(M, c, __VA_ARGS__)
#define TROUPE_EACH_31(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_30(M, c, __VA_ARGS__)
#define TROUPE_EACH_32(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_31(M, c, __VA_ARGS__)
#define TROUPE_EACH_33(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_32(M, c, __VA_ARGS__)
#define TROUPE_EACH_34(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_33(M, c, __VA_ARGS__)
#define TROUPE_EACH_35(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_34(M, c, __VA_ARGS__)
#define TROUPE_EACH_36(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_35(M, c, __VA_ARGS__)
#define TROUPE_EACH_37(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_36(M, c, __VA_ARGS__)
#define TROUPE_EACH_38(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_37(M, c, __VA_ARGS__)
#define TROUPE_EACH_39(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_38(M, c, __VA_ARGS__)
#define TROUPE_EACH_40(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_39(M, c, __VA_ARGS__)
#define TROUPE_EACH_41(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_40(M, c, __VA_ARGS__)
#define TROUPE_EACH_42(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_41(M, c, __VA_ARGS__)
#define TROUPE_EACH_43(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_42(M, c, __VA_ARGS__)
#define TROUPE_EACH_44(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_43(M, c, __VA_ARGS__)
#define TROUPE_EACH_45(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_44(M, c, __VA_ARGS__)
#define TROUPE_EACH_46(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_45(M, c, __VA_ARGS__)
#define TROUPE_EACH_47(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_46(M, c, __VA_ARGS__)
#define TROUPE_EACH_48(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_47(M, c, __VA_ARGS__)
#define TROUPE_EACH_49(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_48(M, c, __VA_ARGS__)
#define TROUPE_EACH_50(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_49(M, c, __VA_ARGS__)
#define TROUPE_EACH_51(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_50(M, c, __VA_ARGS__)
#define TROUPE_EACH_52(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_51(M, c, __VA_ARGS__)
#define TROUPE_EACH_53(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_52(M, c, __VA_ARGS__)
#define TROUPE_EACH_54(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_53(M, c, __VA_ARGS__)
#define TROUPE_EACH_55(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_54(M, c, __VA_ARGS__)
#define TROUPE_EACH_56(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_55(M, c, __VA_ARGS__)
#define TROUPE_EACH_57(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_56(M, c, __VA_ARGS__)
#define TROUPE_EACH_58(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_57(M, c, __VA_ARGS__)
#define TROUPE_EACH_59(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_58(M, c, __VA_ARGS__)
#define TROUPE_EACH_60(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_59(M, c, __VA_ARGS__)
#define TROUPE_EACH_61(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_60(M, c, __VA_ARGS__)
#define TROUPE_EACH_62(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_61(M, c, __VA_ARGS__)
#define TROUPE_EACH_63(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_62(M, c, __VA_ARGS__)
#define TROUPE_EACH_64(M, c, a, ...) TROUPE_EACH_1(M, c, a) TROUPE_EACH_63(M, c, __VA_ARGS__)
#define TROUPE_EACH(M, c, ...) TROUPE_CAT(TROUPE_EACH_, TROUPE_COUNT(__VA_ARGS__))(M, c, __VA_ARGS__)
// clang-format on

#endif
