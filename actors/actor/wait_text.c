// wait_text.c: see actor/wait_text.h.
#include <actors/actor/wait_text.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/actor/task_executor.h>
#include <actors/ref/call_table.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>

enum { LISTED_MAX = 8 };

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
    return troupe_fail(TROUPE_BUSY,
                       "%zu methods of this process wait already, and %d block their threads "
                       "outside the library; %d together are the limit%s%s",
                       count, stalled, most, text[0] != '\0' ? ": " : "", text);
}
