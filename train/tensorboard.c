// tensorboard.c: see tensorboard.h.
#include <train/tensorboard.h>

#include <string.h>

// Fields of the messages, by the numbers of tensorboard's event.proto and summary.proto.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };
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
