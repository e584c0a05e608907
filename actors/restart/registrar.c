// registrar.c: the registrar's table, in the driver: every actor with a restart policy that lives
// in a worker. When a worker dies, those that were there are made again by helpers, light actors of
// a hidden class, one for each: they wait for the back-off and for the new process, and the table's
// own functions never wait.
#include <actors/restart/registrar.h>

#include <actors/actor/death_record.h>
#include <actors/actor/pending_adoption.h>
#include <actors/actor/saved_state.h>
#include <actors/actor/spawn_resources.h>
#include <actors/class/restart_budget.h>
#include <actors/ends/watch.h>
#include <actors/spawn/spawn.h>
#include <actors/spawn/spawn_frame.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/hash.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

typedef struct record {
    uint64_t number;
    trp_where where;
    troupe_actor origin, now, owner;
    char *class_name;
    troupe_spawn_options how; // Its texts are the record's.
    bool isolated, saves, retired;
    trp_budget budget;
    int64_t due_ms; // Of RESTARTING: when its pause ends.
    trp_kept args, image;
    trp_down end;
    trp_watcher *watchers;
    size_t watcher_count;
    struct record *next_due; // Among those to be restarted or told.
    UT_hash_handle hh;       // By number.
} record;

typedef struct alias_key {
    uint64_t incarnation, id;
} alias_key;

// An address that a record has or had.
typedef struct alias {
    alias_key key;
    record *of;
    UT_hash_handle hh;
} alias;

static struct {
    pthread_mutex_t lock; // Of all that follows, and of what is early.
    record *records;
    alias *aliases;
    uint64_t last;
} adopted = {.lock = PTHREAD_MUTEX_INITIALIZER};

TROUPE_STRUCT(trp_restart_order, (uint64_t, number), (int64_t, delay_ms), (troupe_text, whom));

typedef struct trp_restarter {
    char unused;
} trp_restarter;

static troupe_status trp_restarter_run(trp_restarter *self, const trp_restart_order *order,
                                       troupe_none *nothing);

TROUPE_ACTOR(trp_restarter, (trp_restarter_run, trp_restart_order, troupe_none));

// ---- the table: with the lock held

static record *find(troupe_actor address)
{
    alias *found;
    alias_key key = {.incarnation = address.incarnation, .id = address.id};
    HASH_FIND(hh, adopted.aliases, &key, sizeof key, found);
    return found != NULL ? found->of : NULL;
}

static record *find_number(uint64_t number)
{
    record *found;
    HASH_FIND(hh, adopted.records, &number, sizeof number, found);
    return found;
}

// `room` is the table's from now on; false: no memory for the table, where it had no other.
static bool add_alias(record *of, troupe_actor address, alias *room)
{
    room->key = (alias_key){.incarnation = address.incarnation, .id = address.id};
    room->of = of;
    TRP_HASH_ADD(hh, adopted.aliases, key, sizeof room->key, room);
    return TRP_HASH_HAS(hh, room);
}

static void free_record(record *it)
{
    trp_free(it->class_name);
    trp_spawn_options_free(&it->how);
    trp_kept_drop(&it->args);
    trp_kept_drop(&it->image);
    trp_free(it->watchers);
    trp_free(it);
}

// It will not be started again. Its watchers are told by tell_end, without the lock.
static void end_record(record *it, const trp_down *why)
{
    it->where = TRP_WHERE_ENDED;
    it->end = *why;
    trp_kept_drop(&it->args);
    trp_kept_drop(&it->image);
}

// What the death of its process, or a restart that failed, means for it.
typedef struct loss {
    bool ended;
    int64_t delay_ms; // Of one that is started again,
    trp_label whom;
    char line[512]; // And what is said of that.
} loss;

static void describe_loss(record *it, const trp_down *why, const char *when, loss *what)
{
    what->whom = trp_label_of(it->class_name, it->how.name, it->origin.id);
    snprintf(what->line, sizeof what->line, "actor %s is restarted in another process %s: %s",
             what->whom.text, when, why->text);
    it->due_ms = trp_clock_ms() + what->delay_ms;
}

static loss lose(record *it, const trp_down *why)
{
    loss what = {0};
    trp_down down = *why;
    it->where = TRP_WHERE_RESTARTING;
    // The death may be seen before the news that the actor sent are read here.
    bool final = it->isolated && trp_process_said_final(it->now.process, it->now.incarnation);
    if (it->retired || final || trp_runtime_is_lost()) {
        end_record(it, &down);
        what.ended = true;
    } else if (down.reason == TROUPE_DOWN_NEIGHBOUR) {
        it->budget.unpaid++;
        describe_loss(it, &down, "at once (not counted)", &what);
    } else if (trp_budget_take(&it->budget, trp_clock_ms(), &what.delay_ms)) {
        char when[TRP_BUDGET_TEXT];
        trp_budget_describe(&it->budget, what.delay_ms, when);
        describe_loss(it, &down, when, &what);
    } else {
        size_t size = strlen(down.text);
        snprintf(down.text + size, sizeof down.text - size, "; it was restarted %u times before",
                 it->budget.count);
        end_record(it, &down);
        what.ended = true;
    }
    return what;
}

// ---- what follows from it: without the lock

// An ended record changes no more, but for its watchers.
static void tell_end(record *it)
{
    pthread_mutex_lock(&adopted.lock);
    trp_watcher *watchers = it->watchers;
    size_t count = it->watcher_count;
    it->watchers = NULL;
    it->watcher_count = 0;
    trp_down end = it->end;
    pthread_mutex_unlock(&adopted.lock);
    for (size_t i = 0; i < count; i++)
        trp_watch_tell(&watchers[i], &end);
    trp_free(watchers);
    trp_registrar_announce();
}

static void start_helper(uint64_t number, int64_t delay_ms, const char *whom)
{
    trp_restarter_actor helper = troupe_spawn(trp_restarter, .place = TROUPE_PLACE_HERE);
    trp_restart_order order = {.number = number, .delay_ms = delay_ms, .whom = whom};
    if (troupe_tell_from(helper, trp_restarter_run, &order) == TROUPE_OK)
        return;
    pthread_mutex_lock(&adopted.lock);
    record *it = find_number(number);
    trp_down why = trp_down_of((troupe_actor){0}, TROUPE_DOWN_ERROR,
                               "could not be restarted: %.200s", troupe_last_error()->text);
    if (it != NULL)
        end_record(it, &why);
    pthread_mutex_unlock(&adopted.lock);
    if (it != NULL)
        tell_end(it);
}

static void lost(record *it, const loss *what)
{
    if (what->ended) {
        tell_end(it);
        return;
    }
    if (what->line[0] != '\0' && !trp_actors_stopping())
        trp_log(TRP_WARN, "%s", what->line);
    start_helper(it->number, what->delay_ms, what->whom.text);
}

// ---- what is asked

static bool fill(record *made, trp_adoption *what)
{
    made->number = ++adopted.last;
    made->where = TRP_WHERE_ALIVE;
    made->origin = made->now = what->address;
    made->owner = what->owner;
    made->class_name = trp_strdup(what->class_name);
    made->how = what->how;
    bool copied = trp_spawn_options_copy(&made->how);
    troupe_place place = what->how.place;
    made->isolated =
        trp_need_place(&what->how, &place) == TROUPE_OK && place == TROUPE_PLACE_ISOLATED;
    made->saves = trp_state_of(what->class_name) != NULL;
    made->budget = what->budget;
    made->args = what->args;
    what->args = (trp_kept){0};
    trp_early news = trp_early_take(what->address);
    made->image = news.image;
    if (news.ended)
        end_record(made, &news.end);
    return made->class_name != NULL && copied;
}

// Whether the process in which a record's actor was just made has died meanwhile: its death may
// have been told before the record named it. Ends or restarts it then.
static void look_at_process(uint64_t number)
{
    loss what = {0};
    pthread_mutex_lock(&adopted.lock);
    record *it = find_number(number);
    bool dead = it != NULL && it->where == TRP_WHERE_ALIVE &&
                !trp_process_alive(it->now.process, it->now.incarnation, NULL);
    if (dead) {
        trp_down why = trp_down_of_process(it->now);
        what = lose(it, &why);
    }
    pthread_mutex_unlock(&adopted.lock);
    if (dead)
        lost(it, &what);
}

// Into both tables; false: no memory.
static bool add(record *made, troupe_actor address, alias *name)
{
    TRP_HASH_ADD(hh, adopted.records, number, sizeof made->number, made);
    if (!TRP_HASH_HAS(hh, made) || add_alias(made, address, name))
        return TRP_HASH_HAS(hh, made);
    HASH_DEL(adopted.records, made);
    return false;
}

bool trp_adopted_adopt(trp_adoption *what)
{
    pthread_mutex_lock(&adopted.lock);
    record *made = trp_alloc(sizeof *made);
    alias *name = trp_alloc(sizeof *name);
    bool added = made != NULL && name != NULL && fill(made, what) && add(made, what->address, name);
    uint64_t number = added ? made->number : 0;
    if (!added) {
        trp_free(name);
        if (made != NULL)
            free_record(made);
    }
    pthread_mutex_unlock(&adopted.lock);
    trp_kept_drop(&what->args);
    trp_registrar_begin();
    if (added)
        look_at_process(number);
    return added;
}

bool trp_adopted_save(troupe_actor origin, uint64_t incarnation, trp_kept *image)
{
    bool kept = true;
    pthread_mutex_lock(&adopted.lock);
    record *it = find(origin);
    // Late news of a process before the present one, or of an actor that has ended, are nobody's.
    bool wanted = it != NULL && it->where != TRP_WHERE_ENDED &&
                  (it->where == TRP_WHERE_RESTARTING || it->now.incarnation == incarnation);
    if (wanted) {
        trp_kept before = it->image;
        it->image = *image;
        *image = before;
    } else if (it == NULL && origin.incarnation == incarnation) {
        kept = trp_early_image(origin, image);
    }
    pthread_mutex_unlock(&adopted.lock);
    trp_kept_drop(image);
    return kept;
}

troupe_actor trp_adopted_origin(troupe_actor address)
{
    pthread_mutex_lock(&adopted.lock);
    const record *it = find(address);
    if (it != NULL)
        address = it->origin;
    pthread_mutex_unlock(&adopted.lock);
    return address;
}

static trp_found describe(const record *it)
{
    return (trp_found){.where = it->where,
                       .now = it->now,
                       .isolated = it->isolated,
                       .saves = it->saves,
                       .reason = it->end.reason,
                       .signal = it->end.signal,
                       .text = troupe_arena_text(it->end.text)};
}

trp_found trp_adopted_find(troupe_actor address, bool retire)
{
    trp_found found = {.where = TRP_WHERE_UNKNOWN};
    pthread_mutex_lock(&adopted.lock);
    record *it = find(address);
    if (it != NULL) {
        it->retired = it->retired || retire;
        found = describe(it);
    }
    pthread_mutex_unlock(&adopted.lock);
    return found;
}

trp_found trp_adopted_find_name(const char *name)
{
    trp_found found = {.where = TRP_WHERE_UNKNOWN};
    pthread_mutex_lock(&adopted.lock);
    for (record *it = adopted.records; it != NULL; it = it->hh.next)
        // ALIVE: the news of its process's death have not come here yet.
        if (it->how.name != NULL && it->where != TRP_WHERE_ENDED &&
            strcmp(it->how.name, name) == 0) {
            found = describe(it);
            found.now = it->origin;
            found.text = troupe_arena_text(it->class_name);
        }
    pthread_mutex_unlock(&adopted.lock);
    return found;
}

void trp_adopted_ended(troupe_actor address, const trp_down *down)
{
    pthread_mutex_lock(&adopted.lock);
    record *it = find(address);
    bool ended = it != NULL && it->where != TRP_WHERE_ENDED;
    if (ended)
        end_record(it, down);
    else if (it == NULL && address.process != TRP_PROCESS_DRIVER) // Those are never adopted.
        trp_early_end(address, down);
    pthread_mutex_unlock(&adopted.lock);
    if (ended)
        tell_end(it);
}

void trp_adopted_counted(troupe_actor address)
{
    pthread_mutex_lock(&adopted.lock);
    record *it = find(address);
    if (it != NULL)
        trp_budget_count(&it->budget, trp_clock_ms());
    pthread_mutex_unlock(&adopted.lock);
}

void trp_adopted_watch(troupe_actor address, const trp_watcher *watcher)
{
    pthread_mutex_lock(&adopted.lock);
    // Seen with the lock: its death either has been, or comes to take this out again.
    if (!trp_process_alive(watcher->process, watcher->incarnation, NULL)) {
        pthread_mutex_unlock(&adopted.lock);
        return;
    }
    record *it = find(address);
    trp_watcher *grown = NULL;
    if (it != NULL && it->where != TRP_WHERE_ENDED)
        grown = trp_realloc(it->watchers, (it->watcher_count + 1) * sizeof *grown);
    if (grown != NULL) {
        it->watchers = grown;
        it->watchers[it->watcher_count++] = *watcher;
    }
    trp_down down = it != NULL ? it->end : (trp_down){0};
    pthread_mutex_unlock(&adopted.lock);
    if (grown != NULL)
        return;
    if (it == NULL)
        down = trp_down_of_process(address);
    else if (down.reason == 0)
        down = trp_down_of(address, TROUPE_DOWN_NO_ACTOR, "there was no memory to watch the actor");
    trp_watch_tell(watcher, &down);
}

void trp_adopted_unwatch(troupe_actor address, const trp_watcher *watcher)
{
    pthread_mutex_lock(&adopted.lock);
    record *it = find(address);
    for (size_t i = 0; it != NULL && i < it->watcher_count; i++)
        if (it->watchers[i].number == watcher->number &&
            it->watchers[i].incarnation == watcher->incarnation)
            it->watchers[i--] = it->watchers[--it->watcher_count];
    pthread_mutex_unlock(&adopted.lock);
}

size_t trp_adopted_watchers(troupe_actor address)
{
    pthread_mutex_lock(&adopted.lock);
    const record *it = find(address);
    size_t count = it != NULL ? it->watcher_count : 0;
    pthread_mutex_unlock(&adopted.lock);
    return count;
}

// A process that has died is told nothing more.
static void drop_watchers(record *it, uint64_t incarnation)
{
    for (size_t i = 0; i < it->watcher_count; i++)
        if (it->watchers[i].incarnation == incarnation)
            it->watchers[i--] = it->watchers[--it->watcher_count];
}

// Begins what follows from a process's death for those that were there. A process may have had
// thousands: the first few have a line each, and the rest one.
static void lose_all(record *due, uint64_t incarnation)
{
    enum { LINES_MAX = 8 };
    record *next;
    size_t again = 0;
    for (record *it = due; it != NULL; it = next) {
        loss what = {0};
        pthread_mutex_lock(&adopted.lock);
        next = it->next_due;
        bool still = it->where == TRP_WHERE_ALIVE && it->now.incarnation == incarnation;
        trp_down why = trp_down_of_process(it->now);
        if (still)
            what = lose(it, &why);
        pthread_mutex_unlock(&adopted.lock);
        if (still && !what.ended && again++ >= LINES_MAX)
            what.line[0] = '\0';
        if (still)
            lost(it, &what);
    }
    if (again > LINES_MAX && !trp_actors_stopping())
        trp_log(TRP_WARN, "and so are %zu more actors of that process", again - LINES_MAX);
}

void trp_registrar_death(uint64_t incarnation)
{
    record *due = NULL;
    pthread_mutex_lock(&adopted.lock);
    for (record *it = adopted.records; it != NULL; it = it->hh.next) {
        drop_watchers(it, incarnation);
        if (it->where == TRP_WHERE_ALIVE && it->now.incarnation == incarnation) {
            it->next_due = due;
            due = it;
        }
    }
    trp_early_death(incarnation);
    pthread_mutex_unlock(&adopted.lock);
    lose_all(due, incarnation);
}

void trp_adopted_each(void (*see)(const trp_adopted_look *look, void *user), void *user)
{
    pthread_mutex_lock(&adopted.lock);
    int64_t now_ms = trp_clock_ms();
    for (const record *it = adopted.records; it != NULL; it = it->hh.next) {
        int64_t left_ms = it->due_ms > now_ms ? it->due_ms - now_ms : 0;
        trp_adopted_look look = {.origin = it->origin,
                                 .class_name = it->class_name,
                                 .label = trp_label_of(it->class_name, it->how.name, it->origin.id),
                                 .restarts = it->budget.count + it->budget.unpaid,
                                 .left_ms = left_ms};
        if (it->where == TRP_WHERE_RESTARTING)
            see(&look, user);
    }
    pthread_mutex_unlock(&adopted.lock);
}

void trp_registrar_clear(void)
{
    pthread_mutex_lock(&adopted.lock);
    for (alias *one; (one = adopted.aliases) != NULL; trp_free(one))
        HASH_DEL(adopted.aliases, one);
    for (record *it; (it = adopted.records) != NULL; free_record(it))
        HASH_DEL(adopted.records, it);
    trp_early_clear();
    pthread_mutex_unlock(&adopted.lock);
}

// ---- helpers

// What has come of a spawn. `room` is for its address if it succeeded. The record cannot go while
// this runs: the table is cleared when all turns have ended.
static void moved(uint64_t number, troupe_status status, troupe_actor address, alias *room)
{
    loss what = {0};
    pthread_mutex_lock(&adopted.lock);
    record *it = find_number(number);
    bool useless = it != NULL && it->where != TRP_WHERE_RESTARTING; // Ended meanwhile.
    bool made = it != NULL && !useless && status == TROUPE_OK;
    if (made) {
        (void)add_alias(it, address, room); // Beside the one that it has: it needs no memory.
        it->now = address;
        it->where = TRP_WHERE_ALIVE;
        useless = it->retired;
    } else if (it != NULL && !useless) {
        trp_down why = trp_down_of(it->now, TROUPE_DOWN_ERROR, "could not be restarted: %.200s",
                                   troupe_last_error()->text);
        what = lose(it, &why);
    }
    pthread_mutex_unlock(&adopted.lock);
    trp_free(made ? NULL : room);
    if (it == NULL)
        return;
    if (useless && status == TROUPE_OK)
        (void)troupe_actor_kill(address);
    else if (made)
        trp_registrar_announce();
    else if (!useless)
        lost(it, &what);
    look_at_process(number);
}

// Whether one that waits for its restart has not been ended meanwhile.
static bool is_wanted(const void *user)
{
    pthread_mutex_lock(&adopted.lock);
    const record *it = find_number(*(const uint64_t *)user);
    bool wanted = it != NULL && !it->retired && it->where == TRP_WHERE_RESTARTING;
    pthread_mutex_unlock(&adopted.lock);
    return wanted;
}

static bool end_retired(uint64_t number)
{
    pthread_mutex_lock(&adopted.lock);
    record *it = find_number(number);
    bool retired = it != NULL && it->retired && it->where == TRP_WHERE_RESTARTING;
    trp_down down = trp_down_of((troupe_actor){0}, TROUPE_DOWN_KILLED,
                                "was ended while it waited to be restarted");
    if (retired)
        end_record(it, &down);
    pthread_mutex_unlock(&adopted.lock);
    if (retired)
        tell_end(it);
    return retired;
}

// What an actor that is to be made again is made of: copied, since the record's own may change
// meanwhile. STOPPED: it is not to be made any more.
static troupe_status begin_again(uint64_t number, trp_adoption *again, troupe_actor *origin)
{
    troupe_status status = TROUPE_STOPPED;
    pthread_mutex_lock(&adopted.lock);
    const record *it = find_number(number);
    if (it != NULL && it->where == TRP_WHERE_RESTARTING && !trp_actors_stopping()) {
        *origin = it->origin;
        again->owner = it->owner;
        again->class_name = troupe_arena_text(it->class_name);
        again->how = it->how; // Records stay until all turns have ended.
        again->budget = it->budget;
        status = again->class_name == NULL
                     ? troupe_fail(TROUPE_NO_MEMORY, "no memory to restart an actor")
                     : trp_kept_take(it->args.data, it->args.size, false, &again->args);
        if (status == TROUPE_OK && it->image.data != NULL)
            status = trp_kept_take(it->image.data, it->image.size, false, &again->image);
    }
    pthread_mutex_unlock(&adopted.lock);
    return status;
}

static troupe_status trp_restarter_run(trp_restarter *self, const trp_restart_order *order,
                                       troupe_none *nothing)
{
    (void)self, (void)nothing;
    trp_adoption again = {0};
    troupe_actor origin = {0}, address = {0};
    trp_restart_sleep(order->delay_ms, order->whom, is_wanted, &order->number);
    if (end_retired(order->number))
        return troupe_actor_exit();
    troupe_status status = begin_again(order->number, &again, &origin);
    alias *room = status != TROUPE_STOPPED ? trp_alloc(sizeof *room) : NULL;
    if (status == TROUPE_OK)
        status = room != NULL ? trp_spawn_again(&again, origin, &address)
                              : troupe_fail(TROUPE_NO_MEMORY, "no memory to restart an actor");
    if (status != TROUPE_STOPPED || origin.id != 0)
        moved(order->number, status, address, room);
    trp_kept_drop(&again.args);
    trp_kept_drop(&again.image);
    return troupe_actor_exit();
}

const trp_registrar_table trp_adopted_table = {.adopt = trp_adopted_adopt,
                                               .save = trp_adopted_save,
                                               .origin = trp_adopted_origin,
                                               .find = trp_adopted_find,
                                               .find_name = trp_adopted_find_name,
                                               .ended = trp_adopted_ended,
                                               .counted = trp_adopted_counted,
                                               .watch = trp_adopted_watch,
                                               .unwatch = trp_adopted_unwatch};
