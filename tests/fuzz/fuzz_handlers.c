// fuzz_handlers.c: any bytes as frames that another process sent, given to the handlers of the
// actors' layer, beside actors that live: calls, answers, requests for actors, ends, links, news of
// ends, values of streams, counts, restarts, and all that the registrar is asked.
//
// Some come from another node: those that the door lets in. Whatever came, the actors can be asked
// and ended afterwards, what this process holds is as it was, and no other object is left.
#include "house.h"

#include <actors/actor/registrar_client.h>
#include <actors/ends/watch.h>
#include <actors/ref/call_table.h>
#include <actors/restart/registrar.h>
#include <runtime/link/dispatch.h>
#include <runtime/link/frame_rules.h>
#include <runtime/shm/segment.h>
#include <runtime/store/read.h>
#include <runtime/store/store.h>
#include <unistd.h>

enum { STRANGER = 5, THERE = 1234567, PATIENCE_MS = 20000, NUMBER_UNKNOWN = 999999 };
enum { FAR_STRANGER = TRP_PROCESSES_MAX + 7, FAR_THERE = 7654321 };
enum { TREASURES = 2, TREASURE_BYTES = 200000 };

static const uint32_t processes[SENDERS] = {STRANGER, FAR_STRANGER, TRP_PROCESS_DRIVER};
static unsigned char gold[TREASURE_BYTES];
static troupe_ref treasures[TREASURES]; // What must survive: a large object, and a small one.

static uint64_t objects(void)
{
    troupe_store_usage now;
    require(troupe_store_usage_get(&now) == TROUPE_OK);
    return now.objects;
}

static void begin(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    (void)setenv("TROUPE_LOCAL", "1", 1);
    (void)setenv("TROUPE_LOG", "off", 1);
    require(troupe_start(0, NULL, .threads = 1, .store_bytes_max = 64 << 20) == TROUPE_OK);
    for (size_t i = 0; i < sizeof gold; i++)
        gold[i] = (unsigned char)(i * 7 + i / 256);
    treasures[0] = troupe_put_bytes(gold, sizeof gold);
    treasures[1] = troupe_put_bytes(gold, 100);
    require((treasures[0].id & treasures[1].id & TRP_REF_OBJECT) != 0);
}

static void check_treasures(void)
{
    for (int i = 0; i < TREASURES; i++) {
        trp_object_info info = trp_store_pin(treasures[i].id);
        require(info.state == TRP_OBJECT_SEALED && info.size == (i == 0 ? sizeof gold : 100));
        require(memcmp(info.data, gold, info.size) == 0);
        trp_store_unpin(treasures[i].id);
    }
}

// ---- what the frames may be about

typedef struct scene {
    guest_actor guest, lister;
    troupe_stream stream;
    troupe_ref pending, far_pending;
    uint64_t watch, objects;
} scene;

static void told(void *user, uint64_t owner, uint64_t number, const trp_down *down)
{
    (void)user, (void)owner, (void)number;
    require(down->reason >= TROUPE_DOWN_NORMAL && down->reason <= TROUPE_DOWN_NODE);
    require(memchr(down->text, 0, sizeof down->text) != NULL);
}

static void set_scene(scene *here)
{
    trp_target stranger = {.process = STRANGER, .incarnation = THERE, .actor = 1};
    trp_target far = {.process = FAR_STRANGER, .incarnation = FAR_THERE, .actor = 1};
    here->objects = objects();
    note first = {.number = 1, .text = "the first"};
    here->guest = troupe_spawn_from(guest, &first, .restarts = 3, .counted = true);
    here->lister = troupe_spawn_from(guest, &first);
    require(troupe_actor_status(here->guest.address) == TROUPE_OK);
    require(troupe_actor_status(here->lister.address) == TROUPE_OK);
    here->stream = troupe_stream_open(troupe_with(here->lister, .window = 1), guest_list, 100);
    here->pending.id = trp_entry_call(trp_type_note(&troupe_type_note), &stranger, 0);
    here->far_pending.id = trp_entry_call(trp_type_note(&troupe_type_note), &far, 0);
    here->watch = trp_watch(here->lister.address, 0, told, NULL);
    require(here->stream.id_ != 0 && here->pending.id > TRP_REF_NO_MEMORY && here->watch != 0);
    require(here->far_pending.id > TRP_REF_NO_MEMORY);
}

// ---- the frames

// The body as an object that the process holds, since the frame says that it is one; `named` is
// then what the frame's body says.
static void make_object(const house_frame *read, trp_frame *frame, trp_buffer *named)
{
    static const trp_encoding encodings[] = {TRP_ENCODING_BYTES, TRP_ENCODING_PACKED,
                                             TRP_ENCODING_IMAGE, TRP_ENCODING_TENSOR};
    trp_object object;
    void *bytes;
    bool plain = (frame->flags & TRP_FRAME_STORED) != 0;
    trp_encoding encoding = plain ? TRP_ENCODING_BYTES : encodings[read->encoding % 4];
    uint64_t schema = plain ? 0 : trp_type_note(&troupe_type_note);
    require(trp_store_create(read->size, schema, encoding, &object, &bytes) == TROUPE_OK);
    if (read->size > 0)
        memcpy(bytes, read->body, read->size);
    require(trp_store_seal(object) == TROUPE_OK);
    trp_write_uint(named, object);
    frame->body = named->data;
    frame->body_size = named->size;
}

// Whether the body is made an object: where the kind and the flags say so in one way. Elsewhere the
// body's bytes stand where an object's id might be looked for.
static bool is_stored(const trp_frame *frame)
{
    uint32_t how =
        frame->flags & (TRP_FRAME_STORED | TRP_FRAME_OBJECT | TRP_FRAME_IMAGE | TRP_FRAME_HELD |
                        TRP_FRAME_UNHELD); // With that, this process holds nothing.
    if (how != TRP_FRAME_STORED && how != TRP_FRAME_OBJECT)
        return false;
    return frame->kind == TRP_FRAME_CALL || frame->kind == TRP_FRAME_TELL ||
           frame->kind == TRP_FRAME_SPAWN || frame->kind == TRP_FRAME_ITEM ||
           (frame->kind == TRP_FRAME_REPLY && frame->status == TROUPE_OK);
}

enum { ID = sizeof(uint64_t), MARK = 0xfe };

static void write_id(uint64_t id, bool big_endian, uint8_t to[ID])
{
    for (int i = 0; i < ID; i++)
        to[i] = (uint8_t)(id >> 8 * (big_endian ? ID - 1 - i : i));
}

// Eight bytes 0xfe and a number stand for the id of what must survive, which nobody can guess, and
// is written as MessagePack has it. In a frame from another node.
static void name_treasures(uint8_t *body, size_t size)
{
    static const uint8_t mark[ID] = {MARK, MARK, MARK, MARK, MARK, MARK, MARK, MARK};
    for (size_t at = 0; at + ID < size; at++) {
        if (memcmp(body + at, mark, ID) != 0)
            continue;
        uint64_t id = treasures[body[at + ID] % TREASURES].id;
        body[at] = 0xcf;
        write_id(id, true, body + at + 1);
    }
}

// And where a process of this node happens to name one that it has not given, which is not defended
// against, it names nothing. What is left may name another: each pass leaves fewer bytes.
static void hide_treasures(uint8_t *body, size_t size)
{
    for (bool found = true; found;) {
        found = false;
        for (int form = 0; form < 2 * TREASURES; form++) {
            uint8_t id[ID];
            write_id(treasures[form / 2].id, form % 2 != 0, id);
            for (size_t at = 0; at + ID <= size; at++) {
                if (memcmp(body + at, id, ID) != 0)
                    continue;
                memset(body + at, 0, ID);
                found = true;
            }
        }
    }
}

// As the maker of the lister's stream would say it: it lives here, and its values and its end come
// as if it did not.
static bool is_makers(trp_frame_kind kind)
{
    return kind == TRP_FRAME_REPLY || kind == TRP_FRAME_ITEM || kind == TRP_FRAME_DOWN;
}

// Else the layer below refuses it.
static bool comes_in(const trp_frame *frame, int sender)
{
    return frame->kind >= TRP_FRAME_CALL && trp_frame_valid(frame) &&
           trp_frame_allowed(frame, sender == SENDER_FAR, false) &&
           (sender != SENDER_MAKER || is_makers(frame->kind));
}

static void give(const scene *here, const house_frame *read)
{
    uint8_t *body = malloc(read->size > 0 ? read->size : 1); // A sanitizer sees where it ends.
    require(body != NULL);
    house_frame own = *read;
    const uint64_t incarnations[SENDERS] = {THERE, FAR_THERE, trp_home_here.incarnation};
    bool far = read->sender == SENDER_FAR;
    const uint64_t targets[TARGETS] = {here->guest.address.id, here->lister.address.id, 0,
                                       NUMBER_UNKNOWN};
    const uint64_t calls[CALLS] = {0, far ? here->far_pending.id : here->pending.id,
                                   here->stream.id_, here->watch, 77};
    const uint64_t schemas[SCHEMAS] = {read->schema, trp_home_here.incarnation, THERE};
    trp_frame frame = {.kind = (trp_frame_kind)read->kind,
                       .flags = read->flags,
                       .from = processes[read->sender],
                       .from_incarnation = incarnations[read->sender],
                       .to_incarnation = trp_home_here.incarnation,
                       .target = targets[read->target],
                       .method = read->method,
                       .schema = schemas[read->schema_is],
                       .call = calls[read->call],
                       .status = read->status,
                       .outcome = read->outcome,
                       .executed = read->executed,
                       .body = body,
                       .body_size = read->size};
    trp_buffer named = {0};
    memcpy(body, read->body, read->size);
    own.body = body;
    if (far)
        name_treasures(body, read->size);
    else
        hide_treasures(body, read->size);
    if (!comes_in(&frame, read->sender)) {
        free(body);
        return;
    }
    // An adopted actor whose process is dead would be started again, beside all that is done here.
    if (frame.kind == TRP_FRAME_REGISTRAR && frame.method % 256 == TRP_ADOPT) {
        frame.method = TRP_ADOPT | TRP_PROCESS_DRIVER << 8;
        frame.schema = trp_home_here.incarnation;
    }
    if (is_stored(&frame))
        make_object(&own, &frame, &named);
    trp_process_deliver_begin();
    trp_process_take(&frame);
    trp_process_deliver_end();
    trp_buffer_free(&named);
    free(body);
}

// ---- afterwards

// Each call to it ends; how depends on what came.
static void ask(guest_actor actor)
{
    plot at;
    int out;
    troupe_ref slow = troupe_call(actor, guest_walk, 1, 1), urgent = troupe_call(actor, guest_peek);
    require(troupe_get(plot, slow, &at, PATIENCE_MS) != TROUPE_TIMED_OUT);
    require(troupe_get(int, urgent, &out, PATIENCE_MS) != TROUPE_TIMED_OUT);
}

static void end_pending(troupe_ref pending)
{
    note value;
    troupe_status status = troupe_get(note, pending, &value, TROUPE_POLL);
    if (status == TROUPE_OK && value.ref.id != 0)
        troupe_ref_drop(value.ref);
    if (status == TROUPE_TIMED_OUT || status == TROUPE_WRONG_TYPE)
        troupe_ref_drop(pending);
}

static void read_all(const scene *here)
{
    note value;
    troupe_status status;
    do {
        status = troupe_next(note, here->stream, &value, TROUPE_POLL);
        if (status == TROUPE_OK && value.ref.id != 0)
            troupe_ref_drop(value.ref);
    } while (status == TROUPE_OK || status == TROUPE_WRONG_TYPE || status == TROUPE_MALFORMED);
    troupe_stream_drop(here->stream);
    end_pending(here->pending);
    end_pending(here->far_pending);
}

static bool is_gone(troupe_actor actor)
{
    return troupe_actor_await_end(actor, PATIENCE_MS, NULL) == TROUPE_OK;
}

// Init adds its actor before anybody can kill it: after a pass that finds none there is none.
static void empty_house(void)
{
    troupe_actor one;
    for (;;) {
        pthread_mutex_lock(&house.lock);
        bool left = house.count > 0;
        if (left)
            one = house.made[--house.count];
        pthread_mutex_unlock(&house.lock);
        if (!left)
            return;
        (void)troupe_actor_kill(one);
        require(is_gone(one));
    }
}

static void clear_scene(const scene *here)
{
    (void)trp_watch_drop(here->watch, 0, NULL);
    (void)troupe_actor_kill(here->lister.address);
    (void)troupe_actor_kill(here->guest.address);
    (void)troupe_actor_release(here->guest.address);
    require(is_gone(here->lister.address) && is_gone(here->guest.address));
    empty_house();
    trp_process_deliver_begin();
    trp_registrar_clear();
    trp_process_handlers()->death(STRANGER, THERE, "was never there");
    trp_process_handlers()->death(FAR_STRANGER, FAR_THERE, "was never there");
    trp_process_deliver_end();
    // An actor's messages are freed by its last turn, which tells its end before.
    for (int i = 0; objects() != here->objects; i++) {
        require(i < PATIENCE_MS);
        (void)usleep(1000);
    }
    check_treasures();
    troupe_arena_reset();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { FRAMES_MAX = 16 };
    scene here;
    begin();
    set_scene(&here);
    for (int i = 0; i < FRAMES_MAX && size >= HOUSE_HEADER; i++) {
        house_frame read;
        size_t used = house_read(data, size, &read);
        give(&here, &read);
        data += used;
        size -= used;
    }
    ask(here.guest);
    read_all(&here);
    ask(here.lister);
    clear_scene(&here);
    return 0;
}
