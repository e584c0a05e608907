// tensorboard.c: see tensorboard.h.
#include <train/tensorboard.h>

#include <math.h>
#include <runtime/codec/json_leaves.h>
#include <string.h>

// Fields of the messages, by the numbers of tensorboard's event.proto and summary.proto.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
// Of its HParams page's plugin_data.proto and api.proto.
enum { HPARAMS_VERSION = 1, HPARAMS_START = 3, HPARAMS_END = 4 };
enum { START_PARAMS = 1, START_TIME = 5, END_STATUS = 1, END_TIME = 2 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { STATUS_SUCCESS = 1, STATUS_FAILURE = 2 };
// Of Protocol Buffers' struct.proto.
enum { STRUCT_NUMBER = 2, STRUCT_STRING = 3, STRUCT_BOOL = 4 };
// How a field is encoded.
enum { VARINT = 0, FIXED_64 = 1, LENGTH_DELIMITED = 2, FIXED_32 = 5 };

uint32_t trp_crc32c(const void *data, size_t size)
{
    // What four bits become, by the polynomial 0x82f63b78.
    static const uint32_t shifted[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const unsigned char *at = data;
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ shifted[crc & 15];
        crc = crc >> 4 ^ shifted[crc & 15];
    }
    return ~crc;
}

// A checksum of data that has checksums in it would be weak, hence the mask.
static uint32_t masked(const void *data, size_t size)
{
    uint32_t crc = trp_crc32c(data, size);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void write_varint(trp_buffer *out, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        trp_buffer_append(out, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void write_key(trp_buffer *out, int field, int encoding)
{
    write_varint(out, (uint64_t)field << 3 | (uint64_t)encoding);
}

static void write_bytes(trp_buffer *out, int field, const void *data, size_t size)
{
    write_key(out, field, LENGTH_DELIMITED);
    write_varint(out, size);
    trp_buffer_append(out, data, size);
}

static void begin_event(trp_buffer *event, double wall_s)
{
    write_key(event, EVENT_WALL_TIME, FIXED_64);
    trp_buffer_append(event, &wall_s, sizeof wall_s);
}

static void end_event(trp_buffer *event, trp_buffer *out)
{
    uint64_t length = event->size;
    uint32_t length_crc = masked(&length, sizeof length), crc = masked(event->data, event->size);
    out->failed = out->failed || event->failed;
    trp_buffer_append(out, &length, sizeof length);
    trp_buffer_append(out, &length_crc, sizeof length_crc);
    trp_buffer_append(out, event->data, event->size);
    trp_buffer_append(out, &crc, sizeof crc);
    trp_buffer_free(event);
}

void trp_tensorboard_begin(double wall_s, trp_buffer *out)
{
    static const char version[] = "brain.Event:2";
    trp_buffer event = {0};
    begin_event(&event, wall_s);
    write_bytes(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
    end_event(&event, out);
}

void trp_tensorboard_report(double wall_s, const troupe_report_event *report, trp_buffer *out)
{
    trp_buffer event = {0}, summary = {0}, value = {0}, tag = {0};
    for (size_t i = 0; i < report->count; i++) {
        const troupe_metric *metric = &report->metrics[i];
        float number = (float)metric->value;
        value.size = tag.size = 0;
        if (report->source[0] != '\0')
            trp_buffer_printf(&tag, "%s/", report->source);
        trp_buffer_append(&tag, metric->name, strlen(metric->name));
        write_bytes(&value, VALUE_TAG, tag.data, tag.size);
        write_key(&value, VALUE_SIMPLE_VALUE, FIXED_32);
        trp_buffer_append(&value, &number, sizeof number);
        write_bytes(&summary, SUMMARY_VALUE, value.data, value.size);
    }
    begin_event(&event, wall_s);
    write_key(&event, EVENT_STEP, VARINT);
    write_varint(&event, (uint64_t)report->number);
    write_bytes(&event, EVENT_SUMMARY, summary.data, summary.size);
    event.failed = event.failed || summary.failed || value.failed || tag.failed;
    end_event(&event, out);
    trp_buffer_free(&summary);
    trp_buffer_free(&value);
    trp_buffer_free(&tag);
}

// ---- hyperparameters

static void write_double(trp_buffer *out, int field, double value)
{
    write_key(out, field, FIXED_64);
    trp_buffer_append(out, &value, sizeof value);
}

// Adds a message that is a field of another, and frees it.
static void write_message(trp_buffer *out, int field, trp_buffer *message)
{
    out->failed = out->failed || message->failed;
    write_bytes(out, field, message->data, message->size);
    trp_buffer_free(message);
}

static bool is_bool(trp_json value)
{
    return value.size > 0 && (value.at[0] == 't' || value.at[0] == 'f');
}

// A list is shown as its text, and so is what no number is: the page is drawn from JSON.
static void write_param(trp_json value, trp_buffer *out)
{
    trp_arena arena = {0};
    trp_buffer text = {0};
    double number;
    if (is_bool(value)) {
        write_key(out, STRUCT_BOOL, VARINT);
        write_varint(out, value.at[0] == 't');
    } else if (trp_json_read(&troupe_type_double, value, &arena, &number) == TROUPE_OK &&
               isfinite(number)) {
        write_double(out, STRUCT_NUMBER, number);
    } else {
        trp_json_plain(value, &text);
        write_message(out, STRUCT_STRING, &text);
    }
    trp_arena_clear(&arena);
}

static bool add_param(void *user, const char *name, trp_json value)
{
    trp_buffer *start = user, entry = {0}, of = {0};
    if (trp_json_is_null(value))
        return true;
    write_bytes(&entry, ENTRY_KEY, name, strlen(name));
    write_param(value, &of);
    write_message(&entry, ENTRY_VALUE, &of);
    write_message(start, START_PARAMS, &entry);
    return !start->failed;
}

// Wraps what the page is told into an event.
static void write_hparams(double wall_s, const char *tag, int field, trp_buffer *message,
                          trp_buffer *out)
{
    static const char name[] = "hparams";
    trp_buffer content = {0}, plugin = {0}, metadata = {0}, value = {0}, summary = {0}, event = {0};
    write_key(&content, HPARAMS_VERSION, VARINT);
    write_varint(&content, 0);
    write_message(&content, field, message);
    write_bytes(&plugin, PLUGIN_NAME, name, sizeof name - 1);
    write_message(&plugin, PLUGIN_CONTENT, &content);
    write_message(&metadata, METADATA_PLUGIN, &plugin);
    write_bytes(&value, VALUE_TAG, tag, strlen(tag));
    write_message(&value, VALUE_METADATA, &metadata);
    write_message(&summary, SUMMARY_VALUE, &value);
    begin_event(&event, wall_s);
    write_message(&event, EVENT_SUMMARY, &summary);
    end_event(&event, out);
}

bool trp_tensorboard_params(double wall_s, trp_json params, trp_buffer *out)
{
    trp_buffer start = {0};
    if (!trp_json_leaves(params, add_param, &start))
        start.failed = true;
    bool any = start.size > 0;
    if (any) { // Without any there is nothing to compare.
        write_double(&start, START_TIME, wall_s);
        write_hparams(wall_s, "_hparams_/session_start_info", HPARAMS_START, &start, out);
    }
    out->failed = out->failed || start.failed;
    trp_buffer_free(&start);
    return any;
}

void trp_tensorboard_end(double wall_s, bool well, trp_buffer *out)
{
    trp_buffer end = {0};
    write_key(&end, END_STATUS, VARINT);
    write_varint(&end, well ? STATUS_SUCCESS : STATUS_FAILURE);
    write_double(&end, END_TIME, wall_s);
    write_hparams(wall_s, "_hparams_/session_end_info", HPARAMS_END, &end, out);
}
