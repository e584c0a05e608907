// wire.c: see train/wire.h.
#include <runtime/base/error.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <string.h>
#include <train/wire.h>

typedef struct head {
    uint32_t size;
    uint16_t kind, format;
    uint32_t number;
} head;
_Static_assert(sizeof(head) == TRP_WIRE_HEAD, "a head has no holes");

troupe_status trp_wire_put(trp_buffer *out, trp_wire_kind kind, uint32_t number,
                           const troupe_type *type, const void *value)
{
    static const head none;
    size_t at = out->size;
    trp_buffer_append(out, &none, sizeof none);
    troupe_status status = trp_pack(type, value, out);
    size_t size = out->size - at - sizeof none;
    if (status == TROUPE_OK && out->failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a message to the train server");
    if (status == TROUPE_OK && size > TRP_WIRE_BYTES_MAX)
        status = troupe_fail(TROUPE_TOO_LARGE,
                             "a message to the train server has %zu bytes, expected at most %d",
                             size, (int)TRP_WIRE_BYTES_MAX);
    if (status != TROUPE_OK) {
        out->size = at;
        return status;
    }
    head first = {(uint32_t)size, (uint16_t)kind, TRP_WIRE_FORMAT, number};
    memcpy(out->data + at, &first, sizeof first);
    return TROUPE_OK;
}

troupe_status trp_wire_take(const void *data, size_t size, size_t most, trp_wire_frame *frame,
                            size_t *used)
{
    head first;
    *used = 0;
    if (size < sizeof first)
        return TROUPE_OK;
    memcpy(&first, data, sizeof first);
    if (first.kind == 0 || first.format == 0)
        return troupe_fail(TROUPE_MALFORMED,
                           "a message of kind %d and format %d: expected both "
                           "to be at least 1",
                           first.kind, first.format);
    if (first.size > most)
        return troupe_fail(TROUPE_MALFORMED, "a message of %u bytes: expected at most %zu",
                           first.size, most);
    if (size - sizeof first < first.size)
        return TROUPE_OK;
    *frame = (trp_wire_frame){.kind = (trp_wire_kind)first.kind,
                              .format = first.format,
                              .number = first.number,
                              .data = (const unsigned char *)data + sizeof first,
                              .size = first.size};
    *used = sizeof first + first.size;
    return TROUPE_OK;
}

troupe_status trp_wire_agree(const char *who, int format, int version)
{
    if (format != TRP_WIRE_FORMAT)
        return troupe_fail(TROUPE_VERSION,
                           "%s packs its messages in format %d, and this one in format %d: "
                           "expected the same of programs and their train server, which have to "
                           "be of one Troupe",
                           who, format, (int)TRP_WIRE_FORMAT);
    if (version < TRP_WIRE_VERSION - 1 || version > TRP_WIRE_VERSION + 1 || version < 1)
        return troupe_fail(TROUPE_VERSION,
                           "%s speaks version %d of the train server's protocol, and this one "
                           "version %d: expected at most one between a program and its train "
                           "server",
                           who, version, (int)TRP_WIRE_VERSION);
    return TROUPE_OK;
}

troupe_status trp_wire_read(const trp_wire_frame *frame, const troupe_type *type, trp_arena *arena,
                            void *value)
{
    return trp_unpack_whole(type, frame->data, frame->size, arena, value);
}
