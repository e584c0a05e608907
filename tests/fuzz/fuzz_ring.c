// fuzz_ring.c: any bytes as a ring that another process has written. The first eight are its tail,
// the ninth says whether that is taken as it is, and whether the writer waits for room.
//
// A reader stays inside the ring, ends, and hands out only frames that could have been sent.
#include <runtime/link/spsc_ring.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 8 + 1, CAPACITY = 1024 };

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_frame(const trp_ring_reader *in, const trp_frame *frame)
{
    const unsigned char *body = frame->body, *start = in->ring->data;
    require(trp_frame_valid(frame));
    require(body >= start && body <= start + in->capacity);
    require(frame->body_size <= (size_t)(start + in->capacity - body));
    static unsigned char copy[CAPACITY]; // Reads all of it, for the address sanitizer.
    memcpy(copy, body, frame->body_size);
}

static void read_ring(trp_ring *ring, size_t size)
{
    trp_ring_reader in = trp_ring_reader_of(ring, size);
    trp_frame frame;
    uint64_t object;
    for (int steps = 0;; steps++) {
        require(steps <= 2 * CAPACITY / 48 + 2); // A record takes that much; a gap is one at most.
        uint64_t before = in.head;
        switch (trp_ring_read(&in, &frame, &object)) {
        case TRP_RING_FRAME:
            check_frame(&in, &frame);
            (void)trp_ring_done(&in);
            require(in.at < in.capacity && in.at % 8 == 0);
            require(in.head > before && in.head <= ring->tail);
            break;
        case TRP_RING_EMPTY:
            require(in.head == ring->tail);
            return;
        case TRP_RING_MOVED:
        case TRP_RING_BROKEN:
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    uint64_t tail;
    memcpy(&tail, data, sizeof tail);
    // No larger than what was given, up to a limit: what is beyond it is not ours.
    size_t capacity = (size - HEAD) / 8 * 8;
    if (capacity > CAPACITY)
        capacity = CAPACITY;
    if (capacity < 48)
        return 0;
    void *memory = NULL;
    require(posix_memalign(&memory, 128, sizeof(trp_ring) + capacity) == 0);
    trp_ring *ring = memory;
    memset(ring, 0, sizeof *ring);
    memcpy(ring->data, data + HEAD, capacity);
    // Most tails are no more than the ring: the others are refused at once.
    ring->tail = data[8] % 4 == 0 ? tail : tail % (capacity + 1) / 8 * 8;
    ring->wants_room = data[8] / 4 % 2;
    read_ring(ring, sizeof *ring + capacity);
    free(ring);
    return 0;
}
