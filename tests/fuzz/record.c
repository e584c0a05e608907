// record.c: makes the corpus of fuzz_handlers: lets actors in several processes do what makes them
// send frames of all kinds, and writes down the first of each kind and manner that comes. Usage:
// record_frames <directory>, which exists.
#include "house.h"

#include <actors/actor/registrar_client.h>
#include <actors/ends/retain.h>
#include <fcntl.h>
#include <runtime/codec/pack.h>
#include <runtime/link/dispatch.h>
#include <runtime/store/read.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static trp_handlers original;
static const char *directory;

static const char *kind_name(trp_frame_kind kind)
{
    static const char *const names[] = {
        "call", "tell",  "reply",   "spawn",     "kill", "finish", "watch", "unwatch",
        "down", "count", "restart", "registrar", "link", "cancel", "item",  "taken"};
    size_t at = (size_t)kind - TRP_FRAME_CALL;
    return at < sizeof names / sizeof names[0] ? names[at] : "other";
}

// ---- writing one down

static void write_file(const char *name, const char *suffix, const house_frame *frame)
{
    char path[4096];
    uint8_t header[HOUSE_HEADER];
    (void)snprintf(path, sizeof path, "%s/%s%s", directory, name, suffix);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (file < 0)
        return; // There is one.
    house_write(frame, header);
    require(write(file, header, sizeof header) == sizeof header);
    require(write(file, frame->body, frame->size) == frame->size);
    (void)close(file);
}

// As a sender of another version, or one that was cut off, would have sent it.
static void write_odd(const char *name, const house_frame *frame)
{
    uint8_t body[HOUSE_BODY_MAX];
    house_frame odd = *frame;
    if (frame->size < 2)
        return;
    odd.size = frame->size / 2;
    write_file(name, "_cut", &odd);
    memcpy(body, frame->body, frame->size);
    odd.body = body;
    odd.size = frame->size;
    body[0]++; // A field more than there are, where the body is an array.
    write_file(name, "_longer", &odd);
}

static uint8_t call_of(const trp_frame *frame)
{
    switch (frame->kind) {
    case TRP_FRAME_REPLY:
        return CALL_PENDING;
    case TRP_FRAME_ITEM:
        return CALL_STREAM;
    case TRP_FRAME_DOWN:
        return CALL_WATCH;
    default:
        return frame->call != 0 ? CALL_OTHERS : CALL_NONE;
    }
}

static void write_frame(const trp_frame *frame)
{
    char name[128];
    bool numbered = frame->kind == TRP_FRAME_REGISTRAR || frame->kind == TRP_FRAME_COUNT;
    bool by_maker = frame->kind == TRP_FRAME_ITEM || frame->kind == TRP_FRAME_DOWN;
    house_frame made = {.kind = (uint8_t)frame->kind,
                        .target = frame->target != 0 ? TARGET_GUEST : TARGET_NONE,
                        .call = call_of(frame),
                        .status = (uint8_t)frame->status,
                        .outcome = (uint8_t)frame->outcome,
                        .executed = (uint8_t)frame->executed,
                        .schema_is = numbered ? SCHEMA_HERE : SCHEMA_AS_WRITTEN,
                        .sender = by_maker ? SENDER_MAKER : SENDER_NEAR,
                        .flags = frame->flags,
                        .method = frame->method,
                        .schema = numbered ? 0 : frame->schema,
                        .size = (uint16_t)frame->body_size,
                        .body = frame->body};
    trp_object object = 0;
    if ((frame->flags & (TRP_FRAME_STORED | TRP_FRAME_OBJECT)) != 0) {
        require(trp_frame_object(frame, &object) == TROUPE_OK);
        trp_object_info info = trp_store_pin(object);
        made.body = info.data;
        made.size = (uint16_t)(info.size < HOUSE_BODY_MAX ? info.size : HOUSE_BODY_MAX);
        made.encoding = info.encoding == TRP_ENCODING_PACKED  ? 1
                        : info.encoding == TRP_ENCODING_IMAGE ? 2
                                                              : 0;
    }
    if (made.size > HOUSE_BODY_MAX)
        return; // Only what is no object.
    (void)snprintf(name, sizeof name, "%s_%u_%x%s", kind_name(frame->kind), made.method % 256,
                   made.flags, made.status != 0 ? "_failed" : "");
    write_file(name, "", &made);
    write_odd(name, &made);
    if (object != 0)
        trp_store_unpin(object);
}

static void record(const trp_frame *frame)
{
    write_frame(frame);
    original.frame(frame);
}

// ---- what makes actors send frames

static void must(troupe_status status)
{
    if (status == TROUPE_OK)
        return;
    (void)fprintf(stderr, "record_frames: %s\n", troupe_last_error()->text);
    exit(EXIT_FAILURE);
}

// What is left open is ended by the runtime's stop.
static void make_calls(guest_actor actor)
{
    static double numbers[100000 / sizeof(double)];
    int value = 41, out;
    note back, small = {.number = 1, .text = "a note", .ref = troupe_put(int, &value)};
    note large = {.numbers = {numbers, sizeof numbers / sizeof numbers[0]}};
    plot at;
    must(troupe_get(note, troupe_call_from(actor, guest_take, &small), &back));
    must(troupe_get(note, troupe_call_from(actor, guest_take, &large), &back));
    must(troupe_get(plot, troupe_call(actor, guest_walk, 1, 2), &at));
    must(troupe_tell(actor, guest_walk, 3, 4));
    must(troupe_get(int, troupe_call(actor, guest_peek), &out));
    troupe_ref owed = troupe_call(actor, guest_owe, 1), last = troupe_call(actor, guest_owe, 2);
    must(troupe_get(int, owed, &out));
    must(troupe_cancel(last));
    require(troupe_get(int, last, &out) == TROUPE_CANCELLED);
    troupe_ref named = troupe_call_named(actor.address, "guest_peek", (troupe_bytes){"\xc0", 1});
    require(troupe_get(int, named, &out) != TROUPE_TIMED_OUT);
}

static void save(guest_actor actor)
{
    int out;
    must(troupe_get(int, troupe_call(actor, guest_keep), &out));
}

// What was sent while its process was being ended has not been run.
static void settle(guest_actor actor)
{
    int out;
    while (troupe_get(int, troupe_call(actor, guest_peek), &out) != TROUPE_OK)
        continue;
}

static void read_stream(guest_actor actor)
{
    note next;
    troupe_stream few = troupe_stream_open(troupe_with(actor, .window = 2), guest_list, 5);
    while (troupe_next(note, few, &next) == TROUPE_OK)
        continue;
    troupe_stream many = troupe_stream_open(troupe_with(actor, .window = 2), guest_list, 100);
    must(troupe_next(note, many, &next));
    troupe_stream_drop(many);
}

// One watches and is linked with the other, which is then killed; the driver waits for the end.
static void end_them(guest_actor watching, guest_actor watched)
{
    int out;
    troupe_down down;
    must(troupe_get(int, troupe_call_from(watching, guest_watch, &watched.address), &out));
    require(troupe_actor_await_end(watched.address, 1, &down) == TROUPE_TIMED_OUT);
    must(troupe_actor_kill(watched.address));
    must(troupe_actor_await_end(watched.address, -1, &down));
    must(troupe_actor_end(watching));
    must(troupe_actor_await_end(watching.address, -1, &down));
}

static void play(troupe_place place)
{
    note first = {.number = 7, .text = "hello"};
    guest_actor one = troupe_spawn_from(guest, &first, .place = place, .restarts = 5, .name = "one",
                                        .save_every = 1, .groups = NULL);
    guest_actor two =
        troupe_spawn_from(guest, &first, .place = place, .counted = true, .concurrency = 2);
    guest_actor found;
    int out;
    must(troupe_actor_status(one.address));
    must(troupe_actor_status(two.address));
    make_calls(one);
    make_calls(two);
    save(one);
    read_stream(one);
    must(troupe_lookup(guest, "one", &found));
    must(troupe_actor_retain(two.address));
    must(troupe_actor_release(two.address));
    must(troupe_actor_restart(one));
    settle(one);
    must(troupe_actor_restart(one, .at_once = true));
    settle(one);
    must(troupe_get(int, troupe_call(two, guest_raise, TROUPE_PLACE_ISOLATED), &out));
    must(troupe_get(int, troupe_call(two, guest_raise, TROUPE_PLACE_WORKER), &out));
    end_them(one, two);
}

// Which come by chance only, or never from who keeps to the rules.
static void write_rare(void)
{
    trp_buffer text = {0}, packed = {0};
    note small = {.number = 1, .text = "whole"};
    trp_write_text(&text, "child");
    must(trp_pack(&troupe_type_note, &small, &packed));
    require(!text.failed && !packed.failed);
    const struct {
        const char *name;
        house_frame frame;
    } rare[] = {
        {"registrar_4_0",
         {.kind = TRP_FRAME_REGISTRAR,
          .call = CALL_OTHERS,
          .method = TRP_FIND_NAME,
          .body = text.data,
          .size = (uint16_t)text.size}},
        {"registrar_255", {.kind = TRP_FRAME_REGISTRAR, .call = CALL_OTHERS, .method = UINT32_MAX}},
        {"count_1_0",
         {.kind = TRP_FRAME_COUNT,
          .call = CALL_OTHERS,
          .method = TRP_COUNT_BEGIN,
          .schema_is = SCHEMA_HERE}},
        {"count_2_0",
         {.kind = TRP_FRAME_COUNT, .method = TRP_COUNT_RELEASE, .schema_is = SCHEMA_HERE}},
        {"cancel_force", {.kind = TRP_FRAME_CANCEL, .call = CALL_OTHERS, .flags = TRP_FRAME_FORCE}},
        {"cancel_gentle",
         {.kind = TRP_FRAME_CANCEL, .call = CALL_OTHERS, .flags = TRP_FRAME_GENTLE}},
        {"unlink", {.kind = TRP_FRAME_LINK, .call = CALL_OTHERS, .flags = TRP_FRAME_UNLINK}},
        {"kill_force", {.kind = TRP_FRAME_KILL, .call = CALL_OTHERS, .flags = TRP_FRAME_FORCE}},
        {"down_unknown",
         {.kind = TRP_FRAME_DOWN,
          .sender = SENDER_MAKER,
          .call = CALL_WATCH,
          .method = 99,
          .body = text.data,
          .size = (uint16_t)text.size}},
        {"taken_too_many", {.kind = TRP_FRAME_TAKEN, .call = CALL_STREAM, .method = UINT32_MAX}},
        {"item_object",
         {.kind = TRP_FRAME_ITEM,
          .sender = SENDER_MAKER,
          .call = CALL_STREAM,
          .schema = trp_type_note(&troupe_type_note),
          .flags = TRP_FRAME_OBJECT,
          .encoding = 1,
          .body = packed.data,
          .size = (uint16_t)packed.size}},
        {"reply_object",
         {.kind = TRP_FRAME_REPLY,
          .call = CALL_PENDING,
          .schema = trp_type_note(&troupe_type_note),
          .flags = TRP_FRAME_OBJECT,
          .encoding = 1,
          .body = packed.data,
          .size = (uint16_t)packed.size}},
        {"reply_of_another_type",
         {.kind = TRP_FRAME_REPLY,
          .call = CALL_PENDING,
          .schema = 1,
          .flags = TRP_FRAME_IMAGE,
          .body = packed.data,
          .size = (uint16_t)packed.size}},
    };
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        write_file(rare[i].name, "", &rare[i].frame);
        write_odd(rare[i].name, &rare[i].frame);
    }
    trp_buffer_free(&text);
    trp_buffer_free(&packed);
}

// From another node: values of each kind, as they should be and with a hold of what must survive.
static void write_far(void)
{
    static const uint8_t hold[] = {1, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0};
    static const trp_frame_kind kinds[] = {TRP_FRAME_CALL,    TRP_FRAME_TELL,   TRP_FRAME_REPLY,
                                           TRP_FRAME_KILL,    TRP_FRAME_FINISH, TRP_FRAME_WATCH,
                                           TRP_FRAME_UNWATCH, TRP_FRAME_DOWN,   TRP_FRAME_CANCEL,
                                           TRP_FRAME_ITEM,    TRP_FRAME_TAKEN,  TRP_FRAME_PROBE};
    note small = {.number = 1, .text = "far"};
    trp_buffer named = {0}, value = {0}, bad = {0};
    trp_write_text(&named, "guest_take");
    trp_write_uint(&named, 0);
    trp_write_uint(&value, 0);
    trp_buffer_append(&bad, hold, sizeof hold);
    must(trp_pack(&troupe_type_note, &small, &named));
    must(trp_pack(&troupe_type_note, &small, &value));
    must(trp_pack(&troupe_type_note, &small, &bad));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool call = kinds[i] == TRP_FRAME_CALL || kinds[i] == TRP_FRAME_TELL;
        char name[64];
        (void)snprintf(name, sizeof name, "far_%s", kind_name(kinds[i]));
        house_frame frame = {.kind = (uint8_t)kinds[i],
                             .sender = SENDER_FAR,
                             .call = kinds[i] == TRP_FRAME_TELL ? CALL_NONE : CALL_PENDING,
                             .flags = call ? TRP_FRAME_NAMED : 0,
                             .schema = trp_type_note(&troupe_type_note),
                             .body = call ? named.data : value.data,
                             .size = (uint16_t)(call ? named.size : value.size)};
        write_file(name, "", &frame);
        write_odd(name, &frame);
        frame.flags = 0;
        frame.body = bad.data;
        frame.size = (uint16_t)bad.size;
        write_file(name, "_with_a_hold", &frame);
        frame.size = 0;
        write_file(name, "_bare", &frame);
    }
    trp_buffer_free(&named);
    trp_buffer_free(&value);
    trp_buffer_free(&bad);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: record_frames <directory>\n");
        return EXIT_FAILURE;
    }
    directory = argv[1];
    original = *trp_process_handlers();
    trp_handlers mine = original;
    mine.frame = record;
    trp_process_handlers_set(&mine);
    write_rare();
    write_far();
    must(troupe_start(0, NULL, .workers = 2, .threads = 1));
    play(TROUPE_PLACE_WORKER);
    play(TROUPE_PLACE_ISOLATED);
    return troupe_stop() == TROUPE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
