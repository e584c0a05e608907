// fuzz_frame.c: any bytes, read as a frame. What is accepted is written and read back as the same.
#include <runtime/link/frame.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_frame frame, back;
    troupe_status status = trp_frame_read(data, size, &frame);
    if (status != TROUPE_OK) {
        require(status == TROUPE_MALFORMED || status == TROUPE_VERSION);
        require(troupe_last_error()->text[0] != 0);
        return 0;
    }
    require((const uint8_t *)frame.body + frame.body_size == data + size);
    trp_buffer out = {0}, again = {0};
    trp_frame_write(&frame, &out);
    require(trp_frame_read(out.data, out.size, &back) == TROUPE_OK);
    trp_frame_write(&back, &again);
    require(out.size == again.size && memcmp(out.data, again.data, out.size) == 0);
    require(back.sequence == frame.sequence && back.kind == frame.kind);
    trp_buffer_free(&out);
    trp_buffer_free(&again);
    return 0;
}
