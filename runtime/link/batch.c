// batch.c: batches of records, as they travel over sockets (see batch.h).
#include <runtime/link/batch.h>
#include <runtime/shm/segment.h>

#include <runtime/base/error.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

typedef struct batch_head {
    uint8_t mark, version;
    uint16_t from;
    uint32_t count;
    uint64_t from_incarnation, to_incarnation;
    uint64_t sequence; // Of the first record; the others follow.
} batch_head;
_Static_assert(sizeof(batch_head) == 32, "what a reader of another build expects");
_Static_assert(TRP_PROCESSES_MAX <= UINT16_MAX, "a process has a number of 16 bits");

void trp_batch_add(trp_buffer *buffer, const trp_frame *frame)
{
    if (frame->body_size > UINT32_MAX - sizeof(trp_frame_record)) {
        buffer->failed = true;
        return;
    }
    size_t before = buffer->size;
    if (before == 0) {
        batch_head head = {.mark = TRP_BATCH_MARK,
                           .version = TRP_BATCH_VERSION,
                           .from = (uint16_t)frame->from,
                           .from_incarnation = frame->from_incarnation,
                           .to_incarnation = frame->to_incarnation,
                           .sequence = frame->sequence};
        trp_buffer_append(buffer, &head, sizeof head);
    }
    trp_frame_record record = trp_frame_record_of(frame);
    trp_buffer_append(buffer, &record, sizeof record);
    trp_buffer_append(buffer, frame->body, frame->body_size);
    if (buffer->failed) {
        buffer->size = before;
        return;
    }
    uint32_t count = trp_batch_count(buffer) + 1;
    memcpy(buffer->data + offsetof(batch_head, count), &count, sizeof count);
}

uint32_t trp_batch_count(const trp_buffer *buffer)
{
    uint32_t count = 0;
    if (buffer->size >= sizeof(batch_head))
        memcpy(&count, buffer->data + offsetof(batch_head, count), sizeof count);
    return count;
}

troupe_status trp_batch_open(const void *data, size_t size, trp_batch *batch)
{
    batch_head head;
    if (size < 2)
        return troupe_fail(TROUPE_MALFORMED, "%zu bytes are not a batch of frames", size);
    memcpy(&head, data, 2);
    if (head.mark != TRP_BATCH_MARK)
        return troupe_fail(TROUPE_MALFORMED, "%zu bytes are not a batch of frames", size);
    if (head.version != TRP_BATCH_VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "the sender speaks version %u of the form within a machine, this "
                           "library version %d, and they do not understand each other",
                           head.version, TRP_BATCH_VERSION);
    if (size < sizeof head)
        return troupe_fail(TROUPE_MALFORMED, "a batch of frames ends within its head, at byte %zu",
                           size);
    memcpy(&head, data, sizeof head);
    if (head.count == 0 || head.count > (size - sizeof head) / sizeof(trp_frame_record))
        return troupe_fail(TROUPE_MALFORMED,
                           "a batch of %zu bytes claims %u frames, expected 1 to %zu", size,
                           head.count, (size - sizeof head) / sizeof(trp_frame_record));
    const unsigned char *start = data;
    *batch = (trp_batch){.from = head.from,
                         .count = head.count,
                         .from_incarnation = head.from_incarnation,
                         .to_incarnation = head.to_incarnation,
                         .sequence = head.sequence,
                         .start = start,
                         .at = start + sizeof head,
                         .end = start + size};
    return TROUPE_OK;
}

troupe_status trp_batch_next(trp_batch *batch, trp_frame *frame)
{
    trp_frame_record record;
    trp_frame draft;
    size_t left = (size_t)(batch->end - batch->at), place = (size_t)(batch->at - batch->start);
    if (left < sizeof record)
        return troupe_fail(TROUPE_MALFORMED,
                           "a batch ends where %u more frames are expected, at byte %zu",
                           batch->count, place);
    memcpy(&record, batch->at, sizeof record);
    bool last = batch->count == 1; // It fills the rest.
    if (record.size < sizeof record || record.size > left || (last && record.size != left))
        return troupe_fail(TROUPE_MALFORMED,
                           "a frame of %u bytes begins at byte %zu of a batch, expected %s%zu",
                           record.size, place, last ? "" : "up to ", left);
    if (!trp_frame_record_read(&record, batch->at + sizeof record, &draft))
        return troupe_fail(TROUPE_MALFORMED,
                           "no frame has the kind %u, status %u, outcome %u and executed %u, at "
                           "byte %zu of a batch",
                           record.kind, record.status, record.outcome, record.executed, place);
    draft.from = batch->from;
    draft.from_incarnation = batch->from_incarnation;
    draft.to_incarnation = batch->to_incarnation;
    draft.sequence = batch->sequence++;
    batch->at += record.size;
    batch->count--;
    *frame = draft;
    return TROUPE_OK;
}
