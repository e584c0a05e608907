// fuzz_envelope.c: any bytes, read as a message of another node: an envelope, a frame, and what its
// body may hold. What is accepted is written and read back as the same, and has nothing in it that
// would mean something in this node's memory.
#include <actors/ref/body.h>
#include <runtime/link/frame_rules.h>
#include <runtime/remote/remote_carrier.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_frame(const trp_frame *frame)
{
    enum {
        INNER =
            TRP_FRAME_BOXED | TRP_FRAME_STORED | TRP_FRAME_IMAGE | TRP_FRAME_OBJECT | TRP_FRAME_HELD
    };
    bool to_process = trp_frame_allowed(frame, true, false);
    bool to_node = trp_frame_allowed(frame, true, true);
    if (!to_process && !to_node)
        return;
    require((frame->flags & INNER) == 0);
    require(frame->kind < TRP_FRAME_CALL || !to_node);
    if (!trp_body_far_good(frame))
        return;
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    const char *name;
    size_t size;
    uint64_t holds;
    if ((frame->flags & TRP_FRAME_NAMED) != 0)
        require(trp_read_text(&in, &name, &size) == TROUPE_OK);
    require(trp_read_uint(&in, &holds) == TROUPE_OK && holds == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_reader in = trp_reader_of(data, size), again;
    trp_envelope envelope, back;
    trp_frame frame;
    troupe_status status = trp_envelope_read(&in, &envelope);
    if (status != TROUPE_OK) {
        require(status == TROUPE_MALFORMED || status == TROUPE_VERSION);
        require(troupe_last_error()->text[0] != 0);
        return 0;
    }
    require(envelope.node != 0 && in.at > data && in.at <= in.end);
    trp_buffer out = {0};
    trp_envelope_write(&envelope, &out);
    again = trp_reader_of(out.data, out.size);
    require(trp_envelope_read(&again, &back) == TROUPE_OK && again.at == again.end);
    require(back.node == envelope.node && back.session == envelope.session);
    trp_buffer_free(&out);
    if (trp_frame_read(in.at, (size_t)(in.end - in.at), &frame) == TROUPE_OK)
        check_frame(&frame);
    return 0;
}
