// wait_notes.c: see sched/wait_notes.h.
//
// Each thread that has waited in a method has a note of its own, which it alone writes and which
// stays in a list until the thread ends. So a wait costs a few stores; who reads may see half of
// one that is being written: ids that go together with nothing, which are described as such.
#include <actors/sched/wait_notes.h>

#include <actors/actor/invoke.h>
#include <actors/actor/task_executor.h>
#include <actors/ref/call_table.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum {
    KINSHIP_MAX = 1 << 16, // Waits that are followed: more than methods can wait in a process.
    LISTED_MAX = 8,
};

// ---- notes

typedef struct note {
    struct note *next, **link;
    _Atomic uint32_t kind; // Relaxed, all of them: they are read for people.
    _Atomic uint32_t process;
    _Atomic uint64_t actor, subject;
    const char *_Atomic method;
    trp_wait_look planned; // By the thread alone,
    bool listed;           // as this.
} note;

static struct {
    pthread_mutex_t lock; // Of the list.
    note *first;
    pthread_key_t key; // Its destructor takes a thread's note out.
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local note mine;

static void forget_note(void *user)
{
    note *it = user;
    pthread_mutex_lock(&notes.lock);
    *it->link = it->next;
    if (it->next != NULL)
        it->next->link = it->link;
    pthread_mutex_unlock(&notes.lock);
}

__attribute__((constructor)) static void make_key(void)
{
    (void)pthread_key_create(&notes.key, forget_note);
}

static bool list_note(void)
{
    if (mine.listed)
        return true;
    if (pthread_setspecific(notes.key, &mine) != 0)
        return false; // Its waits are not seen.
    pthread_mutex_lock(&notes.lock);
    mine.link = &notes.first;
    mine.next = notes.first;
    if (mine.next != NULL)
        mine.next->link = &mine.next;
    notes.first = &mine;
    pthread_mutex_unlock(&notes.lock);
    mine.listed = true;
    return true;
}

void trp_wait_for(trp_wait_kind kind, uint64_t subject, uint32_t process)
{
    mine.planned = (trp_wait_look){.kind = kind, .subject = subject, .process = process};
}

static void show(const trp_wait_look *wait)
{
    atomic_store_explicit(&mine.actor, wait->actor, memory_order_relaxed);
    atomic_store_explicit(&mine.method, wait->method, memory_order_relaxed);
    atomic_store_explicit(&mine.subject, wait->subject, memory_order_relaxed);
    atomic_store_explicit(&mine.process, wait->process, memory_order_relaxed);
    atomic_store_explicit(&mine.kind, (uint32_t)wait->kind, memory_order_relaxed);
}

void trp_wait_begun(void)
{
    const trp_running *here = trp_run_current();
    if (here == NULL || !list_note())
        return;
    trp_wait_look wait = mine.planned;
    if (wait.kind == TRP_WAIT_NONE)
        wait.kind = TRP_WAIT_OTHER;
    wait.actor = trp_actor_id(here->actor);
    const trp_method *method = here->message != NULL ? here->message->method : NULL;
    wait.method = method != NULL ? method->row->name : "init";
    show(&wait);
}

void trp_wait_over(void)
{
    mine.planned.kind = TRP_WAIT_NONE;
    atomic_store_explicit(&mine.kind, TRP_WAIT_NONE, memory_order_relaxed);
}

size_t trp_waits_copy(trp_wait_look *waits, size_t room)
{
    size_t count = 0;
    pthread_mutex_lock(&notes.lock);
    for (note *it = notes.first; it != NULL; it = it->next) {
        trp_wait_look wait = {
            .kind = (trp_wait_kind)atomic_load_explicit(&it->kind, memory_order_relaxed),
            .actor = atomic_load_explicit(&it->actor, memory_order_relaxed),
            .subject = atomic_load_explicit(&it->subject, memory_order_relaxed),
            .process = atomic_load_explicit(&it->process, memory_order_relaxed),
            .method = atomic_load_explicit(&it->method, memory_order_relaxed)};
        if (wait.kind == TRP_WAIT_NONE)
            continue;
        if (count < room)
            waits[count] = wait;
        count++;
    }
    pthread_mutex_unlock(&notes.lock);
    return count;
}

// ---- words

// "counter#3", "counter#3 in process 2 (pid 4711)"
static void describe_actor(uint64_t id, uint64_t incarnation, uint32_t process, const char *class_,
                           char text[TRP_WAIT_TEXT])
{
    if ((id & TRP_TASK_TARGET) != 0)
        snprintf(text, TRP_WAIT_TEXT, "task '%.60s'", class_ != NULL ? class_ : "");
    else if (incarnation == trp_home_here.incarnation)
        snprintf(text, TRP_WAIT_TEXT, "%.60s", trp_actor_label(id).text);
    else
        snprintf(text, TRP_WAIT_TEXT, "%.60s#%llu in %.70s", class_ != NULL ? class_ : "actor",
                 (unsigned long long)id, trp_process_text(process).text);
}

static void describe_call(uint64_t call, char text[TRP_WAIT_TEXT])
{
    trp_entry *entry = trp_entry_lock(call);
    bool pending = entry != NULL && entry->kind == TRP_ENTRY_CALL && !entry->done;
    trp_target target = pending ? entry->target : (trp_target){0};
    uint64_t whole = pending ? entry->part_of : 0;
    if (entry != NULL)
        trp_entry_unlock(entry);
    char whom[TRP_WAIT_TEXT];
    if (whole != 0) {
        describe_call(trp_entry_behind((troupe_ref){.id = whole}), text);
        return;
    }
    if (!pending || target.actor == 0) { // It is to nobody yet, or has just ended.
        snprintf(text, TRP_WAIT_TEXT, "an answer");
        return;
    }
    describe_actor(target.actor, target.incarnation, target.process, target.class_name, whom);
    if (target.method != NULL && (target.actor & TRP_TASK_TARGET) == 0)
        snprintf(text, TRP_WAIT_TEXT, "%.60s of %.95s", target.method, whom);
    else
        snprintf(text, TRP_WAIT_TEXT, "an answer of %.95s", whom);
}

void trp_wait_describe(const trp_wait_look *wait, char text[TRP_WAIT_TEXT])
{
    static const char *const words[] = {
        [TRP_WAIT_OTHER] = "something",
        [TRP_WAIT_OBJECT] = "the value of an object",
        [TRP_WAIT_READER] = "the reader of its stream",
        [TRP_WAIT_TASKS] = "room for a task",
        [TRP_WAIT_ROOM] = "room in the store",
        [TRP_WAIT_NODE] = "its node",
        [TRP_WAIT_CHANNEL] = "the other side of a channel",
    };
    static const char *const places[] = {[TRP_WAIT_MAILBOX] = "room in the mailbox of",
                                         [TRP_WAIT_WINDOW] = "room on the way to",
                                         [TRP_WAIT_END] = "the end of"};
    char whom[TRP_WAIT_TEXT];
    bool here = wait->kind == TRP_WAIT_MAILBOX || wait->process == trp_home_here.process;
    switch (wait->kind) {
    case TRP_WAIT_CALL:
        describe_call(wait->subject, text);
        break;
    case TRP_WAIT_STREAM:
        describe_call(wait->subject, whom);
        snprintf(text, TRP_WAIT_TEXT, "a value of %.140s", whom);
        break;
    case TRP_WAIT_MANY:
        snprintf(text, TRP_WAIT_TEXT, wait->subject > 0 ? "%llu references" : "a set of references",
                 (unsigned long long)wait->subject);
        break;
    case TRP_WAIT_MAILBOX:
    case TRP_WAIT_WINDOW:
    case TRP_WAIT_END:
        describe_actor(wait->subject, here ? trp_home_here.incarnation : 0, wait->process, NULL,
                       whom);
        snprintf(text, TRP_WAIT_TEXT, "%s %.120s", places[wait->kind], whom);
        break;
    default:
        snprintf(text, TRP_WAIT_TEXT, "%s", words[wait->kind]);
        break;
    }
}

troupe_status trp_waits_full(int most, int stalled)
{
    trp_wait_look waits[LISTED_MAX];
    char text[400], one[TRP_WAIT_TEXT + 128], what[TRP_WAIT_TEXT];
    size_t count = trp_waits_copy(waits, LISTED_MAX), used = 0, listed = 0;
    text[0] = '\0';
    for (; listed < count && listed < LISTED_MAX; listed++) {
        trp_wait_describe(&waits[listed], what);
        int size = snprintf(one, sizeof one, "%s%.60s in %.60s for %s", listed > 0 ? "; " : "",
                            trp_actor_label(waits[listed].actor).text, waits[listed].method, what);
        if (used + (size_t)size + 32 >= sizeof text) // How many more comes behind.
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", one);
    }
    if (count > listed)
        snprintf(text + used, sizeof text - used, "%sand %zu more", listed > 0 ? "; " : "",
                 count - listed);
    return troupe_fail(
        TROUPE_BUSY,
        "%zu methods of this process wait already, and %d hold their threads without "
        "a word to the library; %d together are the limit%s%s",
        count, stalled, most, text[0] != '\0' ? ": " : "", text);
}

// ---- rings

// The actor of this process that a pending call without a deadline is to; 0: there is none.
static uint64_t target_of(uint64_t call)
{
    trp_entry *entry = trp_entry_lock(call);
    if (entry == NULL)
        return 0;
    uint64_t whole = entry->kind == TRP_ENTRY_CALL && !entry->done ? entry->part_of : 0;
    if (whole != 0) { // Then its own target is nobody.
        trp_entry_unlock(entry);
        return target_of(trp_entry_behind((troupe_ref){.id = whole}));
    }
    bool waits = entry->kind == TRP_ENTRY_CALL && !entry->done && entry->deadline_ns == 0 &&
                 !entry->apart && entry->target.incarnation == trp_home_here.incarnation;
    uint64_t actor = waits ? entry->target.actor : 0;
    trp_entry_unlock(entry);
    return actor;
}

troupe_status trp_actor_waits(trp_actor *actor, uint64_t call)
{
    static pthread_mutex_t graph = PTHREAD_MUTEX_INITIALIZER;
    bool deadlock = false;
    uint64_t own = trp_actor_id(actor);
    if (call == 0) { // Who finds the old one finds that it is done.
        atomic_store(&actor->waits_for, 0);
        return TROUPE_OK;
    }
    pthread_mutex_lock(&graph);
    atomic_store(&actor->waits_for, call);
    for (int i = 0; call != 0 && i < KINSHIP_MAX; i++) {
        uint64_t id = target_of(call);
        deadlock = id == own;
        trp_actor *next = id == 0 || deadlock ? NULL : trp_actor_find(id);
        if (next == NULL || next->concurrent) // Others may end its wait.
            break;
        call = atomic_load(&next->waits_for);
    }
    if (deadlock)
        atomic_store(&actor->waits_for, 0);
    pthread_mutex_unlock(&graph);
    return deadlock ? troupe_fail(TROUPE_DEADLOCK,
                                  "actor %s waits for a call that can only be run after the method "
                                  "that waits",
                                  trp_actor_label(own).text)
                    : TROUPE_OK;
}
