// fuzz_batch.c: any bytes, read as a batch of records as it comes over a socket. What is handed out
// lies within the bytes, could have been sent, and is written and read back as the same.
#include <runtime/link/batch.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_frame(const trp_frame *frame, const uint8_t *data, size_t size)
{
    const uint8_t *body = frame->body;
    require(trp_frame_valid(frame));
    require(body >= data + sizeof(trp_frame_record) && body <= data + size);
    require(frame->body_size <= (size_t)(data + size - body));
}

// Reads it to its end, or to where it makes no sense, writing what comes to `again`. Whether all of
// it was good.
static bool read_batch(const uint8_t *data, size_t size, trp_buffer *again)
{
    trp_batch batch;
    troupe_status status = trp_batch_open(data, size, &batch);
    uint64_t sequence = status == TROUPE_OK ? batch.sequence : 0;
    require(status != TROUPE_OK || batch.count > 0);
    while (status == TROUPE_OK && batch.count > 0) {
        trp_frame frame;
        uint32_t left = batch.count;
        status = trp_batch_next(&batch, &frame);
        if (status != TROUPE_OK)
            break;
        check_frame(&frame, data, size);
        require(batch.count == left - 1 && frame.sequence == sequence++);
        trp_batch_add(again, &frame);
    }
    require(status == TROUPE_OK || status == TROUPE_MALFORMED || status == TROUPE_VERSION);
    require(status == TROUPE_OK || troupe_last_error()->text[0] != 0);
    require(status != TROUPE_OK || batch.at == data + size);
    return status == TROUPE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_buffer again = {0}, third = {0};
    if (read_batch(data, size, &again)) {
        require(!again.failed && again.size == size && memcmp(again.data, data, size) == 0);
        require(read_batch(again.data, again.size, &third));
    }
    trp_buffer_free(&again);
    trp_buffer_free(&third);
    return 0;
}
