// 06_channel.c: frames that one process writes into the same shared memory again and again, and two
// others that read them there: without a message, a new object or a copy for each.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>

enum { HALF = 640 * 240, FRAME = 2 * HALF, SLOTS = 3, FRAMES = 100, VIEWERS = 2 };

TROUPE_STRUCT(seat, (troupe_channel, frames), (size_t, from)); // Which half of each frame.
TROUPE_STRUCT(best, (uint64_t, frame), (uint64_t, light));

typedef struct viewer {
    troupe_channel_reader frames;
    size_t from;
} viewer;

static troupe_status viewer_sit(viewer *self, const seat *where, troupe_none *nothing)
{
    (void)nothing;
    self->from = where->from;
    return troupe_channel_read_open(where->frames, TROUPE_CHANNEL_ANY, &self->frames);
}

// The frame whose half is the brightest, once the last frame has come.
static troupe_status viewer_watch(viewer *self, const troupe_none *nothing, best *found)
{
    (void)nothing;
    troupe_channel_view frame;
    troupe_status status;
    while ((status = troupe_channel_read_begin(&self->frames, &frame, TROUPE_FOREVER)) ==
           TROUPE_OK) {
        uint64_t light = 0;
        for (size_t i = 0; i < HALF; i++)
            light += ((const unsigned char *)frame.data)[self->from + i];
        if (light > found->light)
            *found = (best){frame.sequence, light};
        troupe_channel_read_end(&self->frames); // Its slot may be written again.
    }
    troupe_channel_read_close(&self->frames);
    return status == TROUPE_END ? TROUPE_OK : status;
}

TROUPE_ACTOR(viewer, (viewer_sit, seat, troupe_none), (viewer_watch, troupe_none, best));

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv));

    troupe_channel frames; // The writer is at most SLOTS frames ahead of the slowest viewer.
    troupe_must(troupe_channel_open(FRAME, SLOTS, VIEWERS, &frames));
    viewer_actor viewers[VIEWERS];
    troupe_ref found[VIEWERS];
    for (size_t i = 0; i < VIEWERS; i++) {
        troupe_none nothing;
        viewers[i] = troupe_spawn(viewer, .place = TROUPE_PLACE_ISOLATED);
        // A reader that has opened the channel before the first frame misses none.
        troupe_ref seated = troupe_call(viewers[i], viewer_sit, .frames = frames, .from = i * HALF);
        troupe_must(troupe_get(troupe_none, seated, &nothing));
        found[i] = troupe_call(viewers[i], viewer_watch, 0);
    }

    troupe_channel_writer out;
    troupe_must(troupe_channel_write_open(frames, &out));
    for (int i = 1; i <= FRAMES; i++) {
        void *slot; // Waits for one that both have released.
        troupe_must(troupe_channel_write_begin(&out, &slot, TROUPE_FOREVER));
        memset(slot, i * 37 % 101, HALF);
        memset((unsigned char *)slot + HALF, i * 53 % 101, HALF);
        troupe_must(troupe_channel_publish(&out, FRAME));
    }
    troupe_channel_close(&out);

    best halves[VIEWERS];
    troupe_must(troupe_get_all(best, found, VIEWERS, halves));
    printf("brightest of %d frames: %" PRIu64 " above, %" PRIu64 " below\n", FRAMES,
           halves[0].frame, halves[1].frame);
    troupe_channel_drop(frames);
    return troupe_stop();
}
