// registrar_client.c: asking the registrar (see actor/registrar_client.h): a function call in the
// driver, a REGISTRAR frame from elsewhere. Where an actor has moved to is kept, so that one
// question is asked for each move and process.
#include <actors/actor/registrar_client.h>

#include <actors/actor/invoke.h>
#include <actors/actor/reply.h>
#include <actors/class/restart_budget.h>
#include <actors/ref/call_table.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/futex.h>
#include <runtime/base/hash.h>
#include <runtime/base/memory.h>
#include <runtime/base/slow.h>
#include <runtime/link/peer.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <stdio.h>
#include <string.h>

enum { OPERATION_BITS = 8, LOOK_MS = 5, FIELDS = 21, TEXT_MAX = 128 };

trp_registrar_table trp_registrar_here;

typedef struct move_key {
    uint64_t incarnation, id;
} move_key;

typedef struct move {
    move_key from;
    troupe_actor to;
    UT_hash_handle hh;
} move;

static struct {
    pthread_mutex_t lock;
    move *table;
} moves = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- what is known here

bool trp_registrar_known(void)
{
    TRP_USE_SEGMENT(false);
    return trp_process_running() && trp_segment_process(TRP_PROCESS_DRIVER)->registrar != 0;
}

void trp_registrar_begin(void)
{
    TRP_USE_SEGMENT();
    trp_segment_process(TRP_PROCESS_DRIVER)->registrar = 1;
}

void trp_registrar_announce(void)
{
    TRP_USE_SEGMENT();
    trp_process_row *row = trp_segment_process(TRP_PROCESS_DRIVER);
    row->relocation++; // Pairs with the load before the question in trp_registrar_find.
    trp_wake(&row->relocation);
}

static bool recall(troupe_actor *address)
{
    move *found;
    move_key key = {.incarnation = address->incarnation, .id = address->id};
    pthread_mutex_lock(&moves.lock);
    HASH_FIND(hh, moves.table, &key, sizeof key, found);
    troupe_actor to = found != NULL ? found->to : (troupe_actor){0};
    pthread_mutex_unlock(&moves.lock);
    if (to.id == 0 || !trp_process_alive(to.process, to.incarnation, NULL))
        return false;
    address->id = to.id;
    address->incarnation = to.incarnation;
    address->process = to.process;
    return true;
}

static void remember(troupe_actor from, troupe_actor to)
{
    move *found;
    move_key key = {.incarnation = from.incarnation, .id = from.id};
    pthread_mutex_lock(&moves.lock);
    HASH_FIND(hh, moves.table, &key, sizeof key, found);
    if (found == NULL && (found = trp_alloc(sizeof *found)) != NULL) {
        found->from = key;
        TRP_HASH_ADD(hh, moves.table, from, sizeof found->from, found);
        if (!TRP_HASH_HAS(hh, found)) {
            trp_free(found);
            found = NULL;
        }
    }
    if (found != NULL)
        found->to = to;
    pthread_mutex_unlock(&moves.lock);
}

void trp_registrar_forget(void)
{
    move *it, *next;
    pthread_mutex_lock(&moves.lock);
    HASH_ITER(hh, moves.table, it, next)
    {
        HASH_DEL(moves.table, it);
        trp_free(it);
    }
    pthread_mutex_unlock(&moves.lock);
}

// ---- frames

static uint64_t driver_incarnation(void)
{
    TRP_USE_SEGMENT(0);
    return trp_segment_process(TRP_PROCESS_DRIVER)->incarnation;
}

static trp_parcel to_driver(void)
{
    return (trp_parcel){.process = TRP_PROCESS_DRIVER, .incarnation = driver_incarnation()};
}

// `parcel` (NULL: none) is to the driver, and has only bytes and holds.
static troupe_status send(uint32_t what, troupe_actor about, uint64_t call, trp_parcel *parcel)
{
    trp_frame frame = {.kind = TRP_FRAME_REGISTRAR,
                       .method = what | about.process << OPERATION_BITS,
                       .target = about.id,
                       .schema = about.incarnation,
                       .call = call,
                       .body = parcel != NULL ? parcel->bytes.data : NULL,
                       .body_size = parcel != NULL ? parcel->bytes.size : 0,
                       .held = parcel != NULL ? parcel->held : NULL,
                       .held_count = parcel != NULL ? parcel->held_count : 0};
    if (parcel != NULL && parcel->bytes.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a question to the registrar");
    return trp_process_send(TRP_PROCESS_DRIVER, driver_incarnation(), &frame, 0);
}

static troupe_status ask(uint32_t what, troupe_actor about, trp_parcel *parcel, trp_found *found)
{
    trp_target target = {.process = TRP_PROCESS_DRIVER,
                         .incarnation = driver_incarnation(),
                         .class_name = "registrar"};
    uint64_t call = trp_entry_call(trp_type_note(&troupe_type_trp_found), &target, 0);
    troupe_ref ref = {.id = call};
    if (call == TRP_REF_NO_MEMORY)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a call");
    troupe_status status = send(what, about, call, parcel);
    if (status != TROUPE_OK) {
        troupe_ref_drop(ref);
        return status;
    }
    return troupe_get(trp_found, ref, found);
}

static void write_adoption(const trp_adoption *what, trp_buffer *out)
{
    trp_write_array(out, FIELDS);
    trp_write_text(out, what->class_name);
    trp_write_text(out, what->how.name);
    trp_write_uint(out, what->how.mailbox_max);
    trp_write_uint(out, (uint64_t)what->how.place);
    trp_write_double(out, what->how.cpus);
    trp_write_double(out, what->how.gpus);
    trp_write_uint(out, what->how.memory_bytes);
    trp_write_text(out, what->how.resources);
    trp_write_uint(out, what->how.resources_wait_ms);
    trp_write_text(out, what->how.env);
    trp_write_text(out, what->how.folder);
    trp_write_uint(out, (uint64_t)what->how.lifetime);
    trp_write_bool(out, what->how.counted);
    trp_write_uint(out, what->how.concurrency);
    trp_write_text(out, what->how.groups);
    trp_write_uint(out, what->how.save_every);
    trp_write_uint(out, what->owner.id);
    trp_write_uint(out, what->owner.incarnation);
    trp_write_uint(out, what->owner.process);
    trp_budget_write(&what->budget, out);
    trp_write_bytes(out, what->args.data, what->args.size);
}

// A text of any length, in the thread's arena; nil: NULL.
static troupe_status read_text(trp_reader *in, const char **text)
{
    const char *found;
    size_t size;
    TROUPE_TRY(trp_read_text(in, &found, &size));
    char *copy = found != NULL ? troupe_arena_alloc(size + 1) : NULL;
    if (found != NULL && copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an adoption");
    if (size > 0)
        memcpy(copy, found, size);
    *text = copy;
    return TROUPE_OK;
}

static troupe_status read_number(trp_reader *in, uint64_t limit, uint64_t *number)
{
    TROUPE_TRY(trp_read_uint(in, number));
    return *number <= limit ? TROUPE_OK : troupe_fail(TROUPE_MALFORMED, "an adoption is malformed");
}

static troupe_status read_options(trp_reader *in, troupe_spawn_options *how)
{
    uint64_t mailbox_max, place, memory, wait_ms, lifetime, concurrency, every;
    how->size = sizeof *how;
    TROUPE_TRY(read_text(in, &how->name));
    TROUPE_TRY(read_number(in, UINT32_MAX, &mailbox_max));
    TROUPE_TRY(read_number(in, TROUPE_PLACE_ISOLATED, &place));
    TROUPE_TRY(trp_read_double(in, &how->cpus));
    TROUPE_TRY(trp_read_double(in, &how->gpus));
    TROUPE_TRY(read_number(in, SIZE_MAX, &memory));
    TROUPE_TRY(read_text(in, &how->resources));
    TROUPE_TRY(read_number(in, UINT32_MAX, &wait_ms));
    TROUPE_TRY(read_text(in, &how->env));
    TROUPE_TRY(read_text(in, &how->folder));
    TROUPE_TRY(read_number(in, TROUPE_OWNED, &lifetime));
    TROUPE_TRY(trp_read_bool(in, &how->counted));
    TROUPE_TRY(read_number(in, UINT32_MAX, &concurrency));
    TROUPE_TRY(read_text(in, &how->groups));
    TROUPE_TRY(read_number(in, UINT32_MAX, &every));
    how->lifetime = (troupe_lifetime)lifetime;
    how->concurrency = (uint32_t)concurrency;
    how->save_every = (uint32_t)every;
    how->mailbox_max = (uint32_t)mailbox_max;
    how->place = (troupe_place)place;
    how->memory_bytes = (size_t)memory;
    how->resources_wait_ms = (uint32_t)wait_ms;
    return TROUPE_OK;
}

static troupe_status read_owner(trp_reader *in, troupe_actor *owner)
{
    uint64_t process;
    TROUPE_TRY(trp_read_uint(in, &owner->id));
    TROUPE_TRY(trp_read_uint(in, &owner->incarnation));
    TROUPE_TRY(read_number(in, TRP_PROCESSES_MAX - 1, &process));
    owner->process = (uint32_t)process;
    return TROUPE_OK;
}

static troupe_status take_adoption(const trp_frame *frame, troupe_actor about)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    trp_adoption what = {.address = about};
    uint32_t count;
    troupe_bytes args;
    if ((frame->flags & TRP_FRAME_UNHELD) != 0)
        return trp_body_unheld();
    TROUPE_TRY(trp_read_array(&in, &count));
    TROUPE_TRY(read_text(&in, &what.class_name));
    TROUPE_TRY(read_options(&in, &what.how));
    TROUPE_TRY(read_owner(&in, &what.owner));
    TROUPE_TRY(trp_budget_read(&in, &what.budget));
    TROUPE_TRY(trp_read_bytes(&in, &args.data, &args.size));
    if (count != FIELDS || what.class_name == NULL)
        return troupe_fail(TROUPE_MALFORMED, "an adoption is malformed");
    TROUPE_TRY(trp_kept_take(args.data, args.size, true, &what.args));
    return trp_registrar_here.adopt(&what) ? TROUPE_OK : TROUPE_NO_MEMORY;
}

// ALIVE: it is kept.
static trp_where take_image(const trp_frame *frame, troupe_actor origin)
{
    trp_kept image;
    bool taken = (frame->flags & TRP_FRAME_UNHELD) == 0 &&
                 trp_kept_take(frame->body, frame->body_size, true, &image) == TROUPE_OK;
    return taken && trp_registrar_here.save(origin, frame->from_incarnation, &image)
               ? TRP_WHERE_ALIVE
               : TRP_WHERE_UNKNOWN;
}

static troupe_status take_end(const trp_frame *frame, troupe_actor about)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    uint32_t count;
    int64_t reason, number;
    const char *text;
    size_t size;
    TROUPE_TRY(trp_read_array(&in, &count));
    TROUPE_TRY(trp_read_int(&in, &reason));
    TROUPE_TRY(trp_read_int(&in, &number));
    TROUPE_TRY(trp_read_text(&in, &text, &size));
    if (count != 3 || reason < TROUPE_DOWN_NORMAL || reason > TROUPE_DOWN_RUNTIME)
        return troupe_fail(TROUPE_MALFORMED, "a report of an end is malformed");
    trp_down down = trp_down_of(about, (int)reason, "%.*s", size < 256 ? (int)size : 255,
                                text != NULL ? text : "");
    down.signal = (int)number;
    trp_registrar_here.ended(about, &down);
    return TROUPE_OK;
}

static void answer(const trp_frame *frame, trp_found *found)
{
    trp_shape shape = trp_shape_of(&troupe_type_trp_found);
    trp_message *message;
    if (frame->call == 0 || trp_message_asked(frame, &message) != TROUPE_OK)
        return;
    trp_message_answer(message, &shape, found, 0);
    trp_message_free(message);
}

static trp_found find_name(const trp_frame *frame)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    const char *name;
    if (read_text(&in, &name) != TROUPE_OK || name == NULL)
        return (trp_found){.where = TRP_WHERE_UNKNOWN};
    return trp_registrar_here.find_name(name);
}

void trp_registrar_serve(const trp_frame *frame)
{
    troupe_actor about = {.id = frame->target,
                          .incarnation = frame->schema,
                          .process = (frame->method >> OPERATION_BITS) % TRP_PROCESSES_MAX};
    uint32_t what = frame->method & ((1u << OPERATION_BITS) - 1);
    trp_watcher asker = {frame->from, frame->from_incarnation, frame->call};
    trp_found found = {.where = TRP_WHERE_UNKNOWN};
    if (!trp_process_is_driver())
        return;
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    switch (what) {
    case TRP_ADOPT:
        if (take_adoption(frame, about) == TROUPE_OK)
            found.where = TRP_WHERE_ALIVE;
        answer(frame, &found);
        break;
    case TRP_FIND:
    case TRP_RETIRE:
        found = trp_registrar_here.find(about, what == TRP_RETIRE);
        answer(frame, &found);
        break;
    case TRP_FIND_NAME:
        found = find_name(frame);
        answer(frame, &found);
        break;
    case TRP_ENDED:
        (void)take_end(frame, about);
        break;
    case TRP_COUNTED:
        trp_registrar_here.counted(about);
        break;
    case TRP_WATCHED:
        trp_registrar_here.watch(about, &asker);
        break;
    case TRP_UNWATCHED:
        trp_registrar_here.unwatch(about, &asker);
        break;
    case TRP_SAVED:
        found.where = take_image(frame, about);
        answer(frame, &found);
        break;
    default:
        break;
    }
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
}

// ---- questions

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "the driver has no memory for an actor that is restarted");
}

static troupe_status send_adoption(trp_adoption *what)
{
    trp_parcel parcel = to_driver();
    trp_found found = {0};
    write_adoption(what, &parcel.bytes);
    troupe_status status = trp_kept_lend(&what->args, &parcel);
    if (status == TROUPE_OK)
        status = ask(TRP_ADOPT, what->address, &parcel, &found);
    trp_parcel_drop(&parcel);
    trp_kept_drop(&what->args);
    return status == TROUPE_OK && found.where != TRP_WHERE_ALIVE ? no_memory() : status;
}

troupe_status trp_registrar_adopt(trp_adoption *what)
{
    if (!trp_process_is_driver())
        return send_adoption(what);
    return trp_registrar_here.adopt(what) ? TROUPE_OK : no_memory();
}

troupe_status trp_registrar_save(troupe_actor origin, const trp_kept *image)
{
    trp_parcel parcel = to_driver();
    trp_found found = {0};
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_buffer_append(&parcel.bytes, image->data, image->size);
    troupe_status status = trp_kept_lend(image, &parcel);
    if (status == TROUPE_OK)
        status = ask(TRP_SAVED, origin, &parcel, &found);
    trp_parcel_drop(&parcel);
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    return status == TROUPE_OK && found.where != TRP_WHERE_ALIVE ? no_memory() : status;
}

void trp_registrar_ended(troupe_actor address, const trp_down *down)
{
    if (trp_process_is_driver()) {
        trp_registrar_here.ended(address, down);
        return;
    }
    trp_parcel parcel = to_driver();
    trp_write_array(&parcel.bytes, 3);
    trp_write_int(&parcel.bytes, down->reason);
    trp_write_int(&parcel.bytes, down->signal);
    trp_write_line(&parcel.bytes, down->text);
    (void)send(TRP_ENDED, address, 0, &parcel);
    trp_parcel_drop(&parcel);
}

void trp_registrar_counted(troupe_actor address)
{
    if (trp_process_is_driver())
        trp_registrar_here.counted(address);
    else
        (void)send(TRP_COUNTED, address, 0, NULL);
}

bool trp_registrar_watch(troupe_actor address, uint64_t number)
{
    trp_watcher here = {trp_home_here.process, trp_home_here.incarnation, number};
    if (!trp_registrar_known())
        return false;
    if (!trp_process_is_driver())
        return send(TRP_WATCHED, address, number, NULL) == TROUPE_OK;
    trp_registrar_here.watch(address, &here);
    return true;
}

void trp_registrar_unwatch(troupe_actor address, uint64_t number)
{
    trp_watcher here = {trp_home_here.process, trp_home_here.incarnation, number};
    if (!trp_registrar_known())
        return;
    if (trp_process_is_driver())
        trp_registrar_here.unwatch(address, &here);
    else
        (void)send(TRP_UNWATCHED, address, number, NULL);
}

static troupe_status find_once(troupe_actor address, bool retire, trp_found *found)
{
    if (!trp_process_is_driver())
        return ask(retire ? TRP_RETIRE : TRP_FIND, address, NULL, found);
    *found = trp_registrar_here.find(address, retire);
    return TROUPE_OK;
}

// Waits until an actor has been restarted or given up, or a little; false: the deadline has passed.
static bool wait_for_news(uint32_t seen, int64_t deadline_ns)
{
    int64_t left = deadline_ns < 0 ? INT64_MAX : deadline_ns - trp_clock_ns();
    if (left <= 0 || trp_process_ending() || trp_actors_stopping())
        return false;
    int64_t look = (int64_t)LOOK_MS * 1000000;
    TRP_USE_SEGMENT(false);
    if (trp_scheduler_block() != TROUPE_OK)
        return false;
    trp_wait(&trp_segment_process(TRP_PROCESS_DRIVER)->relocation, seen, left < look ? left : look);
    trp_scheduler_unblock();
    return true;
}

static uint32_t relocations(void)
{
    TRP_USE_SEGMENT(0);
    return trp_segment_process(TRP_PROCESS_DRIVER)->relocation;
}

static troupe_status find_patiently(troupe_actor *address, int64_t deadline_ns, bool retire,
                                    trp_slow *slow)
{
    for (;;) {
        trp_found found;
        TROUPE_TRY(trp_process_check());
        uint32_t seen = relocations();
        TROUPE_TRY(find_once(*address, retire, &found));
        if (found.where == TRP_WHERE_UNKNOWN)
            return troupe_fail(TROUPE_NOT_FOUND, "no such actor was ever restarted");
        if (found.where == TRP_WHERE_ENDED || (retire && found.where == TRP_WHERE_RESTARTING))
            return troupe_fail(
                TROUPE_NOT_EXECUTED, "actor #%llu has ended: %s", (unsigned long long)address->id,
                found.text != NULL && found.text[0] != '\0' ? found.text : "it was to end");
        if (found.where == TRP_WHERE_ALIVE &&
            (retire || trp_process_alive(found.now.process, found.now.incarnation, NULL))) {
            remember(*address, found.now);
            (void)recall(address);
            return TROUPE_OK;
        }
        if (trp_slow_is_due(slow))
            trp_slow_tell(slow, "actor #%llu, which is being restarted",
                          (unsigned long long)address->id);
        if (!wait_for_news(seen, deadline_ns))
            return troupe_fail(TROUPE_BUSY, "actor #%llu is being restarted",
                               (unsigned long long)address->id);
    }
}

troupe_status trp_registrar_find(troupe_actor *address, int64_t deadline_ns, bool retire)
{
    if (!retire && recall(address))
        return TROUPE_OK;
    if (deadline_ns == 0 && !retire)
        return troupe_fail(
            TROUPE_BUSY,
            "actor #%llu may be in a new process, and this thread must not wait to ask for it",
            (unsigned long long)address->id);
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    trp_slow slow;
    trp_slow_begin(&slow, TRP_SLOW_RESTART);
    troupe_status status = find_patiently(address, deadline_ns, retire, &slow);
    trp_slow_end(&slow);
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    return status;
}

troupe_status trp_registrar_look(troupe_actor address, troupe_actor *now, bool *isolated,
                                 bool *saves)
{
    trp_found found;
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    troupe_status status = find_once(address, false, &found);
    if (status == TROUPE_OK && found.where == TRP_WHERE_UNKNOWN)
        status = troupe_fail(TROUPE_NOT_FOUND, "no such actor was ever restarted");
    else if (status == TROUPE_OK && found.where == TRP_WHERE_ENDED)
        status = troupe_fail(TROUPE_NOT_EXECUTED, "the actor has ended: %s", found.text);
    if (status == TROUPE_OK) {
        *now = found.where == TRP_WHERE_ALIVE ? found.now : (troupe_actor){0};
        *isolated = found.isolated;
        *saves = found.saves;
    }
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    return status;
}

troupe_status trp_registrar_find_name(const char *name, troupe_actor *address,
                                      char class_name[TEXT_MAX + 1])
{
    trp_found found = {0};
    troupe_status status = TROUPE_OK;
    trp_arena arena = {0}, *before = trp_arena_swap(&arena);
    if (trp_process_is_driver()) {
        found = trp_registrar_here.find_name(name);
    } else {
        trp_parcel parcel = to_driver();
        trp_write_text(&parcel.bytes, name);
        status = ask(TRP_FIND_NAME, (troupe_actor){0}, &parcel, &found);
        trp_parcel_drop(&parcel);
    }
    if (status == TROUPE_OK && found.where == TRP_WHERE_UNKNOWN)
        status = TROUPE_NOT_FOUND;
    *address = found.now;
    snprintf(class_name, TEXT_MAX + 1, "%s", found.text != NULL ? found.text : "");
    (void)trp_arena_swap(before);
    trp_arena_clear(&arena);
    return status;
}
