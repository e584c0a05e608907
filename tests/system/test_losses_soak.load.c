// test_losses_soak.load.c: the mixed load: actors in all places, calls, calls that are sent again,
// tells, tasks, streams, objects, maps and names, from threads of the driver and from inside
// methods.
#include "losses.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { IN_FLIGHT = 16, MAPPED = 24, ITEMS_MAX = 60, DEPTH = 2 };

TROUPE_STRUCT(work, (uint64_t, row), (uint64_t, dice), (uint32_t, depth), (troupe_bytes, load));
TROUPE_STRUCT(note, (uint32_t, sender), (uint64_t, number));
TROUPE_STRUCT(reading, (uint64_t, row), (uint64_t, filled), // Of which row the bytes are.
              (troupe_ref, object));

typedef struct hand {
    uint64_t served;
} hand;

typedef struct post {
    uint32_t which;
    uint64_t last[SENDERS];
} post;

static void linger(uint64_t *dice)
{
    struct timespec pause = {0, (long)(losses_roll(dice) % 300) * 1000};
    if (book->lost || losses_chance(dice, 8))
        (void)nanosleep(&pause, NULL);
}

static troupe_status hand_work(hand *self, const work *what, uint64_t *answer);
static troupe_status hand_again(hand *self, const work *what, uint64_t *answer);
static troupe_status hand_count(hand *self, const work *what, uint64_t *none);
static troupe_status hand_read(hand *self, const reading *what, troupe_bytes *copy);
static troupe_status post_take(post *self, const note *what, troupe_none *none);

static troupe_status hand_init(hand *self, const troupe_none *none)
{
    (void)none;
    self->served = 0;
    losses_enter();
    return TROUPE_OK;
}

static void hand_deinit(hand *self)
{
    (void)self;
}

static troupe_status post_init(post *self, const uint32_t *which)
{
    *self = (post){.which = *which};
    if (getpid() != losses_driver)
        book->spared = getpid();
    return TROUPE_OK;
}

static void post_deinit(post *self)
{
    (void)self;
}

TROUPE_ACTOR_INIT(hand, (hand_init, troupe_none), hand_deinit, (hand_work, work, uint64_t),
                  (hand_again, work, uint64_t, .options = TROUPE_METHOD_REPEATABLE),
                  (hand_count, work, uint64_t, .options = TROUPE_METHOD_STREAM),
                  (hand_read, reading, troupe_bytes));
TROUPE_ACTOR_INIT(post, (post_init, uint32_t), post_deinit, (post_take, note, troupe_none));

static post_actor posts[POSTS];

static troupe_status chore(const work *what, uint64_t *answer);
static troupe_status chore_large(const work *what, troupe_bytes *answer);
TROUPE_TASK(chore, work, uint64_t);
TROUPE_TASK(chore_large, work, troupe_bytes);

static hand_actor some_hand(uint64_t *dice)
{
    uint32_t place = book->at[losses_roll(dice) % ACTORS];
    return (hand_actor){place == 0 ? (troupe_actor){0} : book->address[place]};
}

// ---- what is run

static void maybe_crash(uint64_t *dice)
{
    if (getpid() != losses_driver && getpid() != book->spared && losses_chance(dice, 4000))
        (void)kill(getpid(), SIGKILL);
}

// Calls from inside methods have a deadline: actors of several processes may wait for each other.
static void call_another(uint64_t *dice, uint32_t depth)
{
    hand_actor to = some_hand(dice);
    uint32_t row = to.address.id != 0 ? losses_row(CALL) : 0;
    if (row == 0)
        return;
    book->row[row].silent = true; // The actor that waits here may be killed.
    work what = {.row = row, .dice = losses_roll(dice), .depth = depth + 1};
    to = troupe_with(to, .deadline_ms = 1 + (uint32_t)(losses_roll(dice) % 30));
    uint64_t answer = 0;
    losses_end(row, troupe_get(uint64_t, troupe_call_from(to, hand_work, &what), &answer));
}

static troupe_status run(const work *what, uint64_t *answer)
{
    uint64_t dice = what->dice;
    entry *it = &book->row[what->row];
    atomic_fetch_add(&it->begun, 1);
    if (what->load.size > 0 && !support_is_filled(what->load.data, what->load.size, what->row))
        losses_wrong("the load is another", what->row);
    linger(&dice);
    if (what->depth < DEPTH && losses_chance(&dice, 4))
        call_another(&dice, what->depth);
    maybe_crash(&dice);
    *answer = what->row;
    atomic_fetch_add(&it->finished, 1);
    return losses_chance(&dice, 20)
               ? troupe_fail(TROUPE_CORRUPT, "row %llu fails", (unsigned long long)what->row)
               : TROUPE_OK;
}

static troupe_status hand_work(hand *self, const work *what, uint64_t *answer)
{
    self->served++;
    return run(what, answer);
}

static troupe_status hand_again(hand *self, const work *what, uint64_t *answer)
{
    self->served++;
    return run(what, answer);
}

static troupe_status chore(const work *what, uint64_t *answer)
{
    losses_enter();
    return run(what, answer);
}

static troupe_status chore_large(const work *what, troupe_bytes *answer)
{
    uint64_t row;
    size_t size = 8 * (1 + what->dice % (LOAD_MAX / 8));
    losses_enter();
    void *data = troupe_arena_alloc(size);
    if (data == NULL)
        return TROUPE_NO_MEMORY;
    support_fill(data, size, what->row);
    *answer = (troupe_bytes){data, size};
    return run(what, &row);
}

static troupe_status hand_count(hand *self, const work *what, uint64_t *none)
{
    (void)none;
    uint64_t dice = what->dice, row;
    self->served++;
    for (uint64_t i = 0, count = what->dice % ITEMS_MAX; i < count; i++) {
        if (losses_chance(&dice, 16))
            linger(&dice);
        TROUPE_TRY(troupe_yield(uint64_t, &i));
    }
    return run(what, &row);
}

// Reads an object that another process made, and answers with a copy.
static troupe_status hand_read(hand *self, const reading *what, troupe_bytes *copy)
{
    self->served++;
    atomic_fetch_add(&book->row[what->row].begun, 1);
    if (troupe_get(troupe_bytes, troupe_ref_keep(what->object), copy) != TROUPE_OK)
        return troupe_fail(TROUPE_CORRUPT, "what is to be read has failed");
    if (!support_is_filled(copy->data, copy->size, what->filled))
        losses_wrong("the object is another", what->row);
    atomic_fetch_add(&book->row[what->row].finished, 1);
    return TROUPE_OK;
}

static troupe_status post_take(post *self, const note *what, troupe_none *none)
{
    (void)none;
    if (what->number != ++self->last[what->sender])
        losses_wrong("out of order, lost or twice", what->number);
    atomic_fetch_add(&book->arrived[self->which][what->sender], 1);
    return TROUPE_OK;
}

// ---- who is there

static void place_hand(uint32_t place, uint64_t *dice)
{
    static const troupe_place where[] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                         TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
    char name[32] = "";
    if (place % 4 == 0)
        snprintf(name, sizeof name, "hand/%u", place);
    hand_actor made = troupe_spawn(hand, .place = where[losses_roll(dice) % 4], .mailbox_max = 256,
                                   .restarts = place % 3 == 0 ? TROUPE_FOREVER : 0, .backoff_ms = 1,
                                   .name = name[0] != '\0' ? name : NULL);
    uint32_t at = atomic_fetch_add(&book->addresses, 1) + 1;
    if (at >= sizeof book->address / sizeof *book->address)
        return;
    book->address[at] = made.address; // A failed one too: calls to it must end as well.
    book->at[place] = at;
}

void losses_people(uint64_t *dice)
{
    for (uint32_t i = 0; i < POSTS; i++) {
        posts[i] = troupe_spawn_from(post, &i,
                                     .place = i == 0 ? TROUPE_PLACE_HERE : TROUPE_PLACE_ISOLATED);
        troupe_must(troupe_actor_status(posts[i].address));
    }
    for (uint32_t i = 0; i < ACTORS; i++)
        place_hand(i, dice);
}

static bool all_arrived(void *unused)
{
    (void)unused;
    bool all = true;
    for (int i = 0; i < POSTS; i++)
        for (int k = 0; k < SENDERS; k++)
            all = all && book->arrived[i][k] == book->told[i][k];
    return all;
}

bool losses_posts_have_all(void)
{
    return support_wait_until(all_arrived, NULL, SUPPORT_SOON_MS);
}

// ---- a thread of load

typedef struct flight {
    troupe_ref ref;
    uint32_t row;
    bool large; // Its value is bytes.
} flight;

static void doing(sender *me, const char *what, uint32_t row)
{
    me->row = row;
    me->since_ms = support_now_ms();
    me->doing = what;
}

static void land(sender *me, flight *it)
{
    if (it->row == 0)
        return;
    uint64_t answer = it->row;
    troupe_bytes bytes = {0};
    doing(me, "get", it->row);
    troupe_status status = it->large ? troupe_get(troupe_bytes, it->ref, &bytes)
                                     : troupe_get(uint64_t, it->ref, &answer);
    losses_end(it->row, status);
    if (status == TROUPE_OK &&
        (answer != it->row || (it->large && !support_is_filled(bytes.data, bytes.size, it->row))))
        losses_wrong("the value is another", it->row);
    if (it->large)
        troupe_arena_reset();
    if (troupe_get(uint64_t, it->ref, &answer, TROUPE_POLL) != TROUPE_INVALID)
        losses_wrong("there is a second end", it->row);
    it->row = 0;
}

static void launch(sender *me, flight *it)
{
    static _Thread_local unsigned char load[LOAD_MAX];
    static const row_kind kinds[] = {CALL, CALL, CALL_AGAIN, TASK, TASK_ONCE};
    row_kind kind = kinds[losses_roll(&me->dice) % 5];
    hand_actor to = some_hand(&me->dice);
    if ((it->row = losses_row(kind)) == 0)
        return;
    size_t size = 8 * (losses_chance(&me->dice, 30) ? losses_roll(&me->dice) % (LOAD_MAX / 8)
                                                    : losses_roll(&me->dice) % 8);
    support_fill(load, size, it->row);
    work what = {.row = it->row, .dice = losses_roll(&me->dice), .load = {load, size}};
    it->large = kind == TASK && losses_chance(&me->dice, 8);
    doing(me, kind == TASK || kind == TASK_ONCE ? "run" : "call", it->row);
    if (kind == CALL && losses_chance(&me->dice, 8))
        to = troupe_with(to, .deadline_ms = 1 + (uint32_t)(losses_roll(&me->dice) % 30));
    if (kind == CALL_AGAIN)
        to = troupe_with(to, .retries = KEPT_MAX);
    if (kind == CALL)
        it->ref = troupe_call_from(to, hand_work, &what);
    else if (kind == CALL_AGAIN)
        it->ref = troupe_call_from(to, hand_again, &what);
    else if (kind == TASK_ONCE)
        it->ref = troupe_run_from(chore, &what, .retries = TROUPE_NONE);
    else if (it->large)
        it->ref = troupe_run_from(chore_large, &what, .retries = KEPT_MAX);
    else // Some wait for what they are to hold.
        it->ref = troupe_run_from(chore, &what, .retries = KEPT_MAX,
                                  .cpus = losses_chance(&me->dice, 6) ? 0.5 : 0);
}

static void tell(sender *me)
{
    hand_actor to = some_hand(&me->dice);
    uint32_t row = losses_row(TELL), which = (uint32_t)(losses_roll(&me->dice) % POSTS);
    if (row == 0)
        return;
    work what = {.row = row, .dice = losses_roll(&me->dice)};
    book->row[row].silent = true;
    doing(me, "tell", row);
    (void)troupe_tell_from(to, hand_work, &what);
    note next = {(uint32_t)me->number, book->told[which][me->number] + 1};
    doing(me, "tell a post", which);
    if (troupe_tell_from(posts[which], post_take, &next) == TROUPE_OK)
        book->told[which][me->number]++;
    else if (!book->lost)
        losses_wrong(troupe_last_error()->text, next.number);
}

static void follow(sender *me)
{
    uint32_t row = losses_row(STREAM);
    if (row == 0)
        return;
    work what = {.row = row, .dice = losses_roll(&me->dice)};
    uint64_t next = 0, value = 0;
    troupe_status status;
    doing(me, "open a stream", row);
    troupe_stream stream =
        troupe_stream_open_as(some_hand(&me->dice).address, troupe_method_hand_count.class_,
                              troupe_method_hand_count.index, &what);
    doing(me, "next", row);
    while ((status = troupe_next(uint64_t, stream, &value)) == TROUPE_OK) {
        if (value != next++)
            losses_wrong("an item is another", row);
        if (losses_chance(&me->dice, 300)) {
            book->row[row].silent = true;
            troupe_stream_drop(stream);
            return;
        }
    }
    losses_end(row, status == TROUPE_END ? TROUPE_OK : status);
    if (status == TROUPE_END && next != what.dice % ITEMS_MAX)
        losses_wrong("items are missing", row);
}

// Bytes that others read: an object, or what a task has yet to make.
static troupe_ref bytes_to_read(sender *me, uint32_t *made)
{
    if (losses_chance(&me->dice, 3) && (*made = losses_row(TASK)) != 0) {
        work what = {.row = *made, .dice = losses_roll(&me->dice)};
        doing(me, "run for others", *made);
        return troupe_run_from(chore_large, &what, .retries = KEPT_MAX);
    }
    size_t size = 8 * (1 + losses_roll(&me->dice) % (LOAD_MAX / 8));
    unsigned char *data = malloc(size);
    troupe_bytes value = {data, size};
    support_fill(data, size, 0);
    doing(me, "put", 0);
    troupe_ref object = troupe_put(troupe_bytes, &value);
    free(data);
    return object;
}

static void put(sender *me)
{
    uint32_t number = losses_row(OBJECT), made = 0;
    if (number == 0)
        return;
    troupe_ref object = bytes_to_read(me, &made);
    reading what = {number, made, object};
    troupe_bytes value = {0};
    doing(me, "call with an object", number);
    troupe_ref copy = troupe_call_from(some_hand(&me->dice), hand_read, &what);
    troupe_status status = troupe_get(troupe_bytes, copy, &value);
    losses_end(number, status);
    if (status == TROUPE_OK && !support_is_filled(value.data, value.size, made))
        losses_wrong("the copy is another", number);
    doing(me, "get of an object", made);
    status = troupe_get(troupe_bytes, object, &value); // Whoever has died.
    if (made != 0)
        losses_end(made, status);
    if (status == TROUPE_OK ? !support_is_filled(value.data, value.size, made)
                            : made == 0 && !book->lost)
        losses_wrong("the object is gone", number);
    troupe_arena_reset();
}

static void map(sender *me)
{
    work items[MAPPED] = {0};
    bool seen[MAPPED] = {false};
    for (int i = 0; i < MAPPED; i++) {
        items[i] = (work){.row = losses_row(MAP), .dice = losses_roll(&me->dice)};
        if (items[i].row == 0)
            return;
    }
    doing(me, "map", (uint32_t)items[0].row);
    troupe_map *all = troupe_run_map(chore, items, MAPPED, .unordered = true);
    troupe_status status;
    uint64_t value;
    size_t index = MAPPED;
    while (all != NULL && (status = troupe_map_next(uint64_t, all, &value, &index)) != TROUPE_END) {
        if (index >= MAPPED || seen[index])
            losses_wrong("an item of a map came twice", items[0].row);
        else
            losses_end((uint32_t)items[index].row, status);
        seen[index % MAPPED] = true;
        index = MAPPED;
    }
    troupe_map_close(all);
}

static void call_by_name(sender *me)
{
    hand_actor found;
    char name[32];
    uint32_t row = losses_row(CALL);
    if (row == 0)
        return;
    snprintf(name, sizeof name, "hand/%u", (unsigned)(losses_roll(&me->dice) % (ACTORS / 4) * 4));
    doing(me, "lookup", row);
    if (troupe_lookup(hand, name, &found) != TROUPE_OK) {
        book->row[row].silent = true;
        return;
    }
    work what = {.row = row, .dice = losses_roll(&me->dice)};
    flight it = {troupe_call_from(found, hand_work, &what), row, false};
    land(me, &it);
}

static void replace(sender *me)
{
    uint32_t place = (uint32_t)(losses_roll(&me->dice) % ACTORS), at = book->at[place];
    hand_actor old = {at == 0 ? (troupe_actor){0} : book->address[at]};
    doing(me, "end an actor", place);
    switch (losses_roll(&me->dice) % 4) {
    case 0:
        (void)troupe_actor_kill(old);
        break;
    case 1:
        (void)troupe_actor_end(old);
        break;
    case 2:
        (void)troupe_actor_stop(old, 50);
        break;
    default:
        (void)troupe_actor_restart(old);
        return;
    }
    doing(me, "await an end", place);
    troupe_down down;
    if (at != 0 && troupe_actor_await_end(old.address, -1, &down) != TROUPE_OK && !book->lost)
        losses_wrong(troupe_last_error()->text, place);
    doing(me, "spawn", place);
    place_hand(place, &me->dice);
}

// Until any of them has ended.
static void wait_for_some(sender *me, const flight *flights)
{
    troupe_ref refs[IN_FLIGHT];
    bool ready[IN_FLIGHT];
    size_t count = 0;
    for (int i = 0; i < IN_FLIGHT; i++)
        if (flights[i].row != 0)
            refs[count++] = flights[i].ref;
    doing(me, "wait for some", (uint32_t)count);
    if (count > 0 && troupe_wait(refs, count, 1, -1, ready, NULL) != TROUPE_OK)
        losses_wrong(troupe_last_error()->text, count);
}

// Something besides a call, now and then.
static void act(sender *me, flight *flights)
{
    flight *it = &flights[losses_roll(&me->dice) % IN_FLIGHT];
    switch (losses_roll(&me->dice) % 64) {
    case 0:
    case 1:
    case 2:
        follow(me);
        break;
    case 3:
    case 4:
        put(me);
        break;
    case 5:
        map(me);
        break;
    case 6:
    case 7:
        call_by_name(me);
        break;
    case 8:
        replace(me);
        break;
    case 9:
        doing(me, "cancel", it->row);
        if (it->row != 0)
            (void)troupe_cancel(it->ref);
        break;
    case 10:
        if (it->row != 0) {
            book->row[it->row].silent = true;
            troupe_ref_drop(it->ref);
            it->row = 0;
        }
        break;
    case 11:
    case 12:
        wait_for_some(me, flights);
        break;
    default:
        if (losses_chance(&me->dice, 4))
            tell(me);
    }
}

void *losses_send(void *user)
{
    sender *me = user;
    flight flights[IN_FLIGHT] = {0};
    while (!book->over) {
        if (book->lost)
            linger(&me->dice); // All that is asked for ends at once.
        flight *it = &flights[losses_roll(&me->dice) % IN_FLIGHT];
        land(me, it);
        launch(me, it);
        act(me, flights);
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        land(me, &flights[i]);
    doing(me, "nothing more", 0);
    me->ended = true;
    return NULL;
}
