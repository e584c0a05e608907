// test_tensorboard.c: what TensorBoard's HParams page is told, taken apart by what is written of
// its format (tests/train/readers.sh asks TensorBoard itself).
#include <math.h>
#include <string.h>
#include <support.h>
#include <train/tensorboard.h>

typedef struct span {
    const unsigned char *at;
    size_t size;
} span;

static uint64_t varint(span *from)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(from->size > 0 && shift < 64);
        unsigned char byte = *from->at++;
        from->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

// Takes the next field; the value of a varint goes to *value, all else to *data.
static int next_field(span *from, span *data, uint64_t *value)
{
    uint64_t key = varint(from), size = 0;
    *value = 0;
    if ((key & 7) == 0) {
        *value = varint(from);
        return (int)(key >> 3);
    }
    size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint(from);
    assert_true(size <= from->size);
    *data = (span){from->at, size};
    from->at += size;
    from->size -= size;
    return (int)(key >> 3);
}

// The first field of that number; false: there is none.
static bool find(span message, int field, span *data, uint64_t *value)
{
    while (message.size > 0)
        if (next_field(&message, data, value) == field)
            return true;
    return false;
}

static span part(span message, int field)
{
    span data = {0};
    uint64_t value;
    assert_true(find(message, field, &data, &value));
    return data;
}

static bool says(span text, const char *expected)
{
    return text.size == strlen(expected) && memcmp(text.at, expected, text.size) == 0;
}

// The one event that there is: the message for the page, under that tag.
static span message_of(const trp_buffer *out, const char *tag)
{
    span event = {out->data + 12, out->size - 16};
    span value = part(part(event, 5), 1);
    span plugin = part(part(value, 9), 1);
    assert_true(says(part(value, 1), tag));
    assert_true(says(part(plugin, 1), "hparams"));
    return part(plugin, 2);
}

static span param(span start, const char *name)
{
    span entry;
    uint64_t value;
    while (start.size > 0)
        if (next_field(&start, &entry, &value) == 1 && says(part(entry, 1), name))
            return part(entry, 2);
    return (span){0};
}

static double number_of(span value)
{
    double number;
    memcpy(&number, part(value, 2).at, sizeof number);
    return number;
}

static trp_json parse(const char *text)
{
    trp_json value;
    assert_int_equal(trp_json_parse(text, strlen(text), &value), TROUPE_OK);
    return value;
}

static void test_hyperparameters_have_their_kinds(void **state)
{
    (void)state;
    trp_buffer out = {0};
    span data;
    uint64_t flag;
    trp_json params = parse("{\"rate\": 0.125, \"wide\": true, \"narrow\": false, \"by\": "
                            "\"adam\", \"fitting\": {\"batch\": 32}, \"none\": null, "
                            "\"lost\": \"NaN\", \"sizes\": [1, 2]}");
    assert_true(trp_tensorboard_params(1795521600.5, params, &out));
    assert_false(out.failed);
    span start = part(message_of(&out, "_hparams_/session_start_info"), 3);
    assert_true(number_of(param(start, "rate")) == 0.125);
    assert_true(number_of(param(start, "fitting/batch")) == 32);
    assert_true(find(param(start, "wide"), 4, &data, &flag) && flag == 1);
    assert_true(find(param(start, "narrow"), 4, &data, &flag) && flag == 0);
    assert_true(says(part(param(start, "by"), 3), "adam"));
    assert_true(says(part(param(start, "lost"), 3), "NaN"));
    assert_true(says(part(param(start, "sizes"), 3), "[1, 2]"));
    assert_int_equal(param(start, "none").size, 0);
    double began;
    memcpy(&began, part(start, 5).at, sizeof began);
    assert_true(began == 1795521600.5);
    trp_buffer_free(&out);
    assert_false(trp_tensorboard_params(1, parse("{}"), &out));
    assert_false(trp_tensorboard_params(1, parse("{\"none\": null}"), &out));
    assert_int_equal(out.size, 0);
}

static void test_the_end_says_how_it_ended(void **state)
{
    (void)state;
    for (int well = 0; well < 2; well++) {
        trp_buffer out = {0};
        span data;
        uint64_t status;
        trp_tensorboard_end(7, well == 1, &out);
        span end = part(message_of(&out, "_hparams_/session_end_info"), 4);
        assert_true(find(end, 1, &data, &status));
        assert_int_equal(status, well == 1 ? 1 : 2);
        trp_buffer_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hyperparameters_have_their_kinds),
        cmocka_unit_test(test_the_end_says_how_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
