// frame.c: writing and reading frames. On the wire a frame is one MessagePack array:
//
//     [version, kind, flags, from, from_incarnation, to_incarnation, sequence, target, method,
//      schema, call, deadline_ms, status, outcome, executed, body]
//
// A later version may add fields before the body, which always comes last; so a version's neighbour
// reads what it knows and skips the rest.
#include <runtime/link/frame.h>

#include <runtime/base/error.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/frame_rules.h>

enum { FIELD_COUNT = 16 };

void trp_frame_write(const trp_frame *frame, trp_buffer *out)
{
    trp_write_array(out, FIELD_COUNT);
    trp_write_uint(out, TRP_FRAME_VERSION);
    trp_write_uint(out, (uint64_t)frame->kind);
    trp_write_uint(out, frame->flags);
    trp_write_uint(out, frame->from);
    trp_write_uint(out, frame->from_incarnation);
    trp_write_uint(out, frame->to_incarnation);
    trp_write_uint(out, frame->sequence);
    trp_write_uint(out, frame->target);
    trp_write_uint(out, frame->method);
    trp_write_uint(out, frame->schema);
    trp_write_uint(out, frame->call);
    trp_write_uint(out, frame->deadline_ms);
    trp_write_uint(out, frame->status);
    trp_write_uint(out, frame->outcome);
    trp_write_uint(out, frame->executed);
    trp_write_bytes(out, frame->body, frame->body_size);
}

// A field of 32 bits that is below `limit`.
static troupe_status read_below(trp_reader *in, const char *name, uint64_t limit, uint32_t *value)
{
    uint64_t number = 0;
    if (trp_read_uint(in, &number) != TROUPE_OK)
        return trp_error_prefix("frame.%s", name);
    if (number >= limit)
        return troupe_fail(TROUPE_MALFORMED,
                           "frame.%s: expected a number below %llu, found %llu before byte %zu",
                           name, (unsigned long long)limit, (unsigned long long)number,
                           (size_t)(in->at - in->start));
    *value = (uint32_t)number;
    return TROUPE_OK;
}

static troupe_status read_32(trp_reader *in, const char *name, uint32_t *value)
{
    return read_below(in, name, (uint64_t)1 << 32, value);
}

static troupe_status read_64(trp_reader *in, const char *name, uint64_t *value)
{
    return trp_read_uint(in, value) == TROUPE_OK ? TROUPE_OK : trp_error_prefix("frame.%s", name);
}

// Whether this library can read what another of that version wrote.
static troupe_status check_version(uint64_t version, uint32_t field_count)
{
    uint64_t ours = TRP_FRAME_VERSION;
    bool neighbour = version + 1 == ours || version == ours + 1;
    if (version == ours && field_count != FIELD_COUNT)
        return troupe_fail(TROUPE_MALFORMED,
                           "a frame of protocol version %llu has %u fields, expected %d",
                           (unsigned long long)version, field_count, FIELD_COUNT);
    if (version == ours || (neighbour && field_count >= FIELD_COUNT))
        return TROUPE_OK;
    return troupe_fail(TROUPE_VERSION,
                       "the sender speaks protocol version %llu with %u fields, this library "
                       "version %d with %d, and they do not understand each other",
                       (unsigned long long)version, field_count, TRP_FRAME_VERSION, FIELD_COUNT);
}

bool trp_frame_valid(const trp_frame *frame)
{
    return trp_frame_kind_known((uint32_t)frame->kind) && frame->status < TROUPE_STATUS_COUNT &&
           frame->outcome <= TROUPE_OUTCOME_CANCELLED && frame->executed <= TROUPE_EXECUTED_YES;
}

static troupe_status read_header(trp_reader *in, trp_frame *frame)
{
    uint32_t kind = 0;
    TROUPE_TRY(read_32(in, "kind", &kind));
    if (!trp_frame_kind_known(kind))
        return troupe_fail(TROUPE_MALFORMED, "frame.kind: there is no kind %u", kind);
    frame->kind = (trp_frame_kind)kind;
    TROUPE_TRY(read_32(in, "flags", &frame->flags));
    TROUPE_TRY(read_32(in, "from", &frame->from));
    TROUPE_TRY(read_64(in, "from_incarnation", &frame->from_incarnation));
    TROUPE_TRY(read_64(in, "to_incarnation", &frame->to_incarnation));
    TROUPE_TRY(read_64(in, "sequence", &frame->sequence));
    TROUPE_TRY(read_64(in, "target", &frame->target));
    TROUPE_TRY(read_32(in, "method", &frame->method));
    TROUPE_TRY(read_64(in, "schema", &frame->schema));
    TROUPE_TRY(read_64(in, "call", &frame->call));
    TROUPE_TRY(read_32(in, "deadline_ms", &frame->deadline_ms));
    TROUPE_TRY(read_below(in, "status", TROUPE_STATUS_COUNT, &frame->status));
    TROUPE_TRY(read_below(in, "outcome", TROUPE_OUTCOME_CANCELLED + 1, &frame->outcome));
    return read_below(in, "executed", TROUPE_EXECUTED_YES + 1, &frame->executed);
}

troupe_status trp_frame_read(const void *data, size_t size, trp_frame *frame)
{
    trp_reader in = trp_reader_of(data, size);
    trp_frame draft = {0};
    uint32_t count = 0;
    uint64_t version = 0;
    if (trp_read_array(&in, &count) != TROUPE_OK)
        return trp_error_prefix("frame");
    if (count == 0)
        return troupe_fail(TROUPE_MALFORMED, "frame: expected a protocol version, found no fields");
    TROUPE_TRY(read_64(&in, "version", &version));
    TROUPE_TRY(check_version(version, count));
    TROUPE_TRY(read_header(&in, &draft));
    in.depth = 1;
    for (uint32_t i = FIELD_COUNT; i < count; i++) {
        if (trp_read_skip(&in) != TROUPE_OK)
            return trp_error_prefix("frame: a field of version %llu", (unsigned long long)version);
    }
    if (trp_read_bytes(&in, &draft.body, &draft.body_size) != TROUPE_OK)
        return trp_error_prefix("frame.body");
    if (trp_read_end(&in) != TROUPE_OK)
        return trp_error_prefix("frame");
    *frame = draft;
    return TROUPE_OK;
}
