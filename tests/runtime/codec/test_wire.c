// test_wire.c: single items of MessagePack, written and read.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <stdio.h>
#include <support.h>

static trp_buffer buffer;

static int empty_buffer(void **state)
{
    (void)state;
    trp_buffer_free(&buffer);
    return 0;
}

static trp_reader written(void)
{
    assert_false(buffer.failed);
    return trp_reader_of(buffer.data, buffer.size);
}

static void expect_bytes(const char *hex)
{
    char found[200] = "";
    assert_true(buffer.size < 90);
    for (size_t i = 0; i < buffer.size; i++)
        snprintf(found + 2 * i, 3, "%02x", buffer.data[i]);
    assert_string_equal(found, hex);
    trp_buffer_free(&buffer);
}

// The bytes that the format's specification gives.
static void test_items_are_written_as_the_format_says(void **state)
{
    (void)state;
    trp_write_nil(&buffer), trp_write_bool(&buffer, false), trp_write_bool(&buffer, true);
    expect_bytes("c0c2c3");
    trp_write_int(&buffer, 0), trp_write_int(&buffer, 127), trp_write_int(&buffer, -1);
    trp_write_int(&buffer, -32), trp_write_int(&buffer, -33), trp_write_int(&buffer, 128);
    expect_bytes("007fffe0d0dfcc80");
    trp_write_int(&buffer, -129), trp_write_int(&buffer, 256), trp_write_int(&buffer, -32769);
    expect_bytes("d1ff7fcd0100d2ffff7fff");
    trp_write_int(&buffer, INT64_MIN), trp_write_uint(&buffer, UINT64_MAX);
    expect_bytes("d38000000000000000cfffffffffffffffff");
    trp_write_float(&buffer, 1.0f), trp_write_double(&buffer, -2.0);
    expect_bytes("ca3f800000cbc000000000000000");
    trp_write_text(&buffer, "hi"), trp_write_text(&buffer, NULL), trp_write_text(&buffer, "");
    expect_bytes("a26869c0a0");
    trp_write_bytes(&buffer, "\1\2", 2), trp_write_bytes(&buffer, NULL, 0);
    expect_bytes("c4020102c400");
    trp_write_array(&buffer, 15), trp_write_array(&buffer, 16), trp_write_array(&buffer, 65536);
    expect_bytes("9fdc0010dd00010000");
}

static void test_integers_of_all_widths_come_back(void **state)
{
    (void)state;
    for (int shift = 0; shift < 64; shift++) {
        for (int delta = -2; delta <= 2; delta++) {
            uint64_t bits = ((uint64_t)1 << shift) + (uint64_t)delta;
            int64_t signed_bits = (int64_t)bits, back = 0;
            uint64_t unsigned_back = 0;
            buffer.size = 0;
            trp_write_int(&buffer, signed_bits);
            trp_write_int(&buffer, (int64_t)(0 - bits));
            trp_write_uint(&buffer, bits);
            trp_reader in = written();
            assert_int_equal(trp_read_int(&in, &back), TROUPE_OK);
            assert_true(back == signed_bits);
            assert_int_equal(trp_read_int(&in, &back), TROUPE_OK);
            assert_true(back == (int64_t)(0 - bits));
            assert_int_equal(trp_read_uint(&in, &unsigned_back), TROUPE_OK);
            assert_true(unsigned_back == bits);
            assert_int_equal(trp_read_end(&in), TROUPE_OK);
        }
    }
}

static void test_numbers_with_fractions_keep_their_bits(void **state)
{
    (void)state;
    const uint64_t doubles[] = {0,
                                1,
                                0x7ff0000000000000,
                                0xfff0000000000000,
                                0x7ff8000000000001,
                                0x7ff0000000000001,
                                0x8000000000000000,
                                0x3fb999999999999a};
    const uint32_t floats[] = {0, 1, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f800001, 0x80000000};
    for (size_t i = 0; i < 8; i++) {
        double value, back = 0;
        memcpy(&value, &doubles[i], 8);
        buffer.size = 0;
        trp_write_double(&buffer, value);
        trp_reader in = written();
        assert_int_equal(trp_read_double(&in, &back), TROUPE_OK);
        assert_memory_equal(&back, &doubles[i], 8);
    }
    for (size_t i = 0; i < 7; i++) {
        float value, back = 0;
        memcpy(&value, &floats[i], 4);
        buffer.size = 0;
        trp_write_float(&buffer, value);
        trp_reader in = written();
        assert_int_equal(trp_read_float(&in, &back), TROUPE_OK);
        assert_memory_equal(&back, &floats[i], 4);
    }
    buffer.size = 0;
    trp_write_float(&buffer, 0.25f);
    trp_reader in = written();
    double wide = 0;
    assert_int_equal(trp_read_double(&in, &wide), TROUPE_OK); // A float is a number, too.
    assert_true(wide == 0.25);
}

static void test_texts_and_bytes_of_all_sizes_come_back(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 31, 32, 255, 256, 65535, 65536, 70000};
    char *text = (char *)trp_alloc(70001);
    assert_non_null(text);
    for (size_t i = 0; i < 9; i++) {
        memset(text, 'q', 70000);
        text[sizes[i]] = 0;
        buffer.size = 0;
        trp_write_text(&buffer, text);
        trp_write_bytes(&buffer, text, sizes[i]);
        trp_reader in = written();
        const char *back = NULL;
        const void *data = NULL;
        size_t size = 99;
        assert_int_equal(trp_read_text(&in, &back, &size), TROUPE_OK);
        assert_non_null(back);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(back, text, size);
        size = 99;
        assert_int_equal(trp_read_bytes(&in, &data, &size), TROUPE_OK);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(data, text, size);
        assert_int_equal(trp_read_end(&in), TROUPE_OK);
    }
    trp_free(text);
}

static void good_text(const char *text, size_t size, size_t good)
{
    // At each distance to the end of eight bytes at once.
    char line[64];
    for (size_t lead = 0; lead < 20; lead++) {
        memset(line, 'x', sizeof(line));
        memcpy(line + lead, text, size);
        assert_int_equal(trp_text_good(line, lead + size), lead + good);
        if (good == size)
            assert_int_equal(trp_text_good(line, sizeof(line)), sizeof(line));
    }
}

static void test_only_utf8_is_text(void **state)
{
    (void)state;
    good_text("plain", 5, 5);
    good_text("\xc3\xa4", 2, 2);
    good_text("\xe0\xa0\x80", 3, 3);
    good_text("\xed\x9f\xbf", 3, 3);
    good_text("\xf0\x90\x80\x80", 4, 4);
    good_text("\xf4\x8f\xbf\xbf", 4, 4);
    good_text("a\0b", 3, 1);
    good_text("ab\x80", 3, 2);           // a continuation alone
    good_text("\xc0\xaf", 2, 0);         // overlong
    good_text("\xc1\xbf", 2, 0);         // overlong
    good_text("\xe0\x9f\xbf", 3, 0);     // overlong
    good_text("\xf0\x8f\xbf\xbf", 4, 0); // overlong
    good_text("\xed\xa0\x80", 3, 0);     // a surrogate
    good_text("\xf4\x90\x80\x80", 4, 0); // above the last code point
    good_text("\xf5\x80\x80\x80", 4, 0);
    good_text("\xff", 1, 0);
    good_text("\xe2\x82", 2, 0); // cut
    good_text("\xc3", 1, 0);
    good_text("\xe2\x28\xa1", 3, 0);
    // Every pair of bytes agrees with the definition.
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const char pair[2] = {(char)a, (char)b};
            size_t expected = a == 0     ? 0
                              : a < 0x80 ? (b > 0 && b < 0x80 ? 2 : 1)
                              : a >= 0xc2 && a < 0xe0 && b >= 0x80 && b < 0xc0 ? 2
                                                                               : 0;
            assert_int_equal(trp_text_good(pair, 2), expected);
        }
    }
}

// Reads `size` bytes as each kind in turn; returns how many succeeded. Checks that a failure is
// MALFORMED, has a sentence, sets nothing and moves nothing.
static int accepted(const void *data, size_t size)
{
    int count = 0;
    for (int kind = 0; kind < 9; kind++) {
        trp_reader in = trp_reader_of(data, size);
        bool truth = true;
        int64_t number = 77;
        uint64_t natural = 77;
        double wide = 77;
        float narrow = 77;
        const char *text = "unset";
        const void *bytes = "unset";
        size_t length = 77;
        uint32_t items = 77;
        troupe_status status = kind == 0   ? trp_read_bool(&in, &truth)
                               : kind == 1 ? trp_read_int(&in, &number)
                               : kind == 2 ? trp_read_uint(&in, &natural)
                               : kind == 3 ? trp_read_double(&in, &wide)
                               : kind == 4 ? trp_read_float(&in, &narrow)
                               : kind == 5 ? trp_read_text(&in, &text, &length)
                               : kind == 6 ? trp_read_bytes(&in, &bytes, &length)
                               : kind == 7 ? trp_read_array(&in, &items)
                                           : trp_read_nil(&in);
        if (status == TROUPE_OK) {
            assert_true(in.at > in.start && in.at <= in.end);
            count++;
            continue;
        }
        assert_int_equal(status, TROUPE_MALFORMED);
        assert_int_equal(troupe_last_error()->status, TROUPE_MALFORMED);
        assert_true(strstr(troupe_last_error()->text, "expected") != NULL);
        assert_ptr_equal(in.at, data);
        assert_true(truth && number == 77 && natural == 77 && wide == 77 && narrow == 77);
        assert_true(length == 77 && items == 77);
        assert_true(strcmp(text, "unset") == 0 && strcmp((const char *)bytes, "unset") == 0);
    }
    return count;
}

static void test_no_bytes_are_read_past_the_end(void **state)
{
    (void)state;
    assert_int_equal(accepted(NULL, 0), 0);
    // Every head with every length up to 20 bytes after it, in memory that ends right there.
    for (unsigned head = 0; head < 256; head++) {
        for (size_t size = 1; size <= 20; size++) {
            for (unsigned fill = 0; fill < 256; fill += 51) {
                unsigned char *exact = (unsigned char *)trp_alloc(size);
                assert_non_null(exact);
                memset(exact, (int)fill, size);
                exact[0] = (unsigned char)head;
                (void)accepted(exact, size);
                trp_reader in = trp_reader_of(exact, size);
                if (trp_read_skip(&in) != TROUPE_OK)
                    assert_ptr_equal(in.at, exact);
                else
                    assert_true(in.at > in.start && in.at <= in.end);
                trp_free(exact);
            }
        }
    }
    assert_int_equal(accepted("\xc1", 1), 0);
    assert_int_equal(accepted("\xd4\x01\x01", 3), 0); // An extension is nothing of ours.
    assert_int_equal(accepted("\x81\x01\x01", 3), 0); // Nor is a map.
}

static void expect_sentence(troupe_status status, const char *sentence)
{
    assert_int_equal(status, TROUPE_MALFORMED);
    assert_string_equal(troupe_last_error()->text, sentence);
}

static void test_refusals_say_what_and_where(void **state)
{
    (void)state;
    trp_reader in = trp_reader_of("\x01\xa1y", 3);
    int64_t number = 0;
    uint64_t natural = 0;
    double wide = 0;
    uint32_t count = 0;
    assert_int_equal(trp_read_int(&in, &number), TROUPE_OK);
    expect_sentence(trp_read_double(&in, &wide), "expected a number, found text at byte 1");
    expect_sentence(trp_read_end(&in), "expected the end at byte 1, found 2 more bytes");
    in = trp_reader_of("\x05", 1);
    expect_sentence(trp_read_double(&in, &wide),
                    "expected a float or a double, found an integer at byte 0");
    in = trp_reader_of("\xff", 1);
    expect_sentence(trp_read_uint(&in, &natural),
                    "expected an integer from 0 up, found -1 at byte 0");
    in = trp_reader_of("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    expect_sentence(trp_read_int(&in, &number), "expected an integer up to 2^63 - 1, found "
                                                "18446744073709551615 at byte 0");
    in = trp_reader_of("\xdd\xff\xff\xff\xff\x01", 6);
    expect_sentence(trp_read_array(&in, &count),
                    "expected an array, found an array at byte 0 that claims 4294967294 more "
                    "bytes than the 1 that are left");
    in = trp_reader_of("", 0);
    expect_sentence(trp_read_bool(&in, &(bool){0}), "expected a bool, found the end at byte 0");
}

static void test_skipping_is_bounded(void **state)
{
    (void)state;
    unsigned char nested[64];
    memset(nested, 0x91, sizeof(nested));
    nested[TRP_DEPTH_MAX] = 0xc0;
    trp_reader in = trp_reader_of(nested, TRP_DEPTH_MAX + 1);
    assert_int_equal(trp_read_skip(&in), TROUPE_OK);
    assert_int_equal(trp_read_end(&in), TROUPE_OK);
    in = trp_reader_of(nested, TRP_DEPTH_MAX + 1);
    in.depth = 1;
    assert_int_equal(trp_read_skip(&in), TROUPE_MALFORMED);
    nested[TRP_DEPTH_MAX] = 0x91;
    nested[TRP_DEPTH_MAX + 1] = 0xc0;
    in = trp_reader_of(nested, TRP_DEPTH_MAX + 2);
    assert_int_equal(trp_read_skip(&in), TROUPE_MALFORMED);
    // One item of each kind, a map of a text and an array, and an extension.
    static const char mixed[] = "\x98\xc0\xc3\x07\xca\0\0\0\0\xa1z\xc4\x01\xff"
                                "\x82\xa1k\x92\x01\x02\x03\xc2\xd5\x09\x01\x02\xa1!";
    in = trp_reader_of(mixed, sizeof(mixed) - 1);
    assert_int_equal(trp_read_skip(&in), TROUPE_OK);
    const char *text = NULL;
    size_t size = 0;
    assert_int_equal(trp_read_text(&in, &text, &size), TROUPE_OK);
    assert_memory_equal(text, "!", 1);
    for (size_t cut = 0; cut < sizeof(mixed) - 3; cut++) {
        in = trp_reader_of(mixed, cut);
        assert_int_equal(trp_read_skip(&in), TROUPE_MALFORMED);
        assert_ptr_equal(in.at, mixed);
    }
}

static void test_writing_without_memory_fails_the_buffer(void **state)
{
    (void)state;
    trp_memory_fail_after(0);
    trp_write_text(&buffer, "no room for this");
    trp_memory_fail_after(-1);
    assert_true(buffer.failed);
    trp_write_int(&buffer, 5);
    assert_int_equal(buffer.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_items_are_written_as_the_format_says, empty_buffer),
        cmocka_unit_test_teardown(test_integers_of_all_widths_come_back, empty_buffer),
        cmocka_unit_test_teardown(test_numbers_with_fractions_keep_their_bits, empty_buffer),
        cmocka_unit_test_teardown(test_texts_and_bytes_of_all_sizes_come_back, empty_buffer),
        cmocka_unit_test(test_only_utf8_is_text),
        cmocka_unit_test(test_no_bytes_are_read_past_the_end),
        cmocka_unit_test(test_refusals_say_what_and_where),
        cmocka_unit_test(test_skipping_is_bounded),
        cmocka_unit_test_teardown(test_writing_without_memory_fails_the_buffer, empty_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
