// 4_objects.c: a large array that is written once and read in place by actors in other processes.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>

// A reference is a value like others: it can be a field of a message.
TROUPE_STRUCT(slice, (troupe_ref, image), (int64_t, from), (int64_t, to));

typedef struct reader {
    int64_t unused;
} reader;

static troupe_status reader_count(reader *self, const slice *part, int64_t *bright)
{
    (void)self;
    troupe_view view; // The bytes where they lie: nothing is copied, of 4 bytes or of 4 GiB.
    TROUPE_TRY(troupe_view_bytes(part->image, &view, TROUPE_FOREVER));
    const unsigned char *pixels = view.data;
    *bright = 0;
    for (int64_t i = part->from; i < part->to; i++)
        *bright += pixels[i] > 127;
    troupe_view_end(&view);
    return TROUPE_OK;
}

TROUPE_ACTOR(reader, (reader_count, slice, int64_t));

enum { PIXELS = 4 << 20, READERS = 4 };

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));

    // Memory of the store is filled in place, and then sealed: it never changes again.
    troupe_buffer buffer;
    troupe_must(troupe_buffer_create(PIXELS, &buffer));
    memset(buffer.data, 200, PIXELS / 2);
    memset((char *)buffer.data + PIXELS / 2, 50, PIXELS / 2);
    troupe_ref image;
    troupe_must(troupe_buffer_seal(&buffer, &image));

    reader_actor readers[READERS];
    troupe_must(troupe_spawn_many(reader, READERS, readers, .place = TROUPE_PLACE_ISOLATED));
    troupe_ref answers[READERS];
    for (int i = 0; i < READERS; i++) {
        slice part = {image, (int64_t)i * (PIXELS / READERS),
                      (int64_t)(i + 1) * (PIXELS / READERS)};
        answers[i] = troupe_call_from(readers[i], reader_count, &part);
    }
    int64_t bright[READERS], all = 0;
    troupe_must(troupe_get_all(int64_t, answers, READERS, bright));
    for (int i = 0; i < READERS; i++)
        all += bright[i];
    printf("%" PRId64 " bright pixels of %d\n", all, PIXELS);

    troupe_ref_drop(image); // Freed with its last reference.
    return troupe_stop();
}
