// task_inline.c: tasks that are run on the thread that asks for them.
//
// A task in a task that finds no room is run at once, on this thread: to wait for room could be to
// wait for itself. So is one where too many tasks wait for others already.
#include <actors/task/task_inline.h>

#include <actors/actor/actor.h>
#include <actors/actor/death_record.h>
#include <actors/actor/invoke.h>
#include <actors/actor/task_executor.h>
#include <actors/async/async.h>
#include <actors/async/cancel.h>
#include <actors/async/concurrency_group.h>
#include <actors/async/urgent.h>
#include <actors/class/call_error.h>
#include <actors/task/task.h>

static trp_message *make_message(const trp_task *it, uint64_t id)
{
    const trp_method *method = &it->class_->methods[0];
    trp_message *message = trp_message_create(TRP_MESSAGE_CALL, method->args.type->size);
    if (message == NULL)
        return NULL;
    message->target = id;
    message->method = method;
    message->call = it->row;
    message->deadline_ns = it->deadline_ns;
    if (trp_message_copy_args(message, &method->args, it->args) == TROUPE_OK)
        return message;
    trp_message_free(message);
    return NULL;
}

// Runs it beside the turns of an executor, as a guest: should somebody kill the executor, its last
// turn waits until the function has returned.
static void run_once(trp_task *it)
{
    troupe_error failure = trp_failure(TROUPE_NO_MEMORY, TROUPE_OUTCOME_NOT_EXECUTED,
                                       TROUPE_EXECUTED_NO, "no memory to run a task");
    uint64_t target = trp_task_target(it->class_), id;
    trp_message *message = NULL;
    trp_actor *executor =
        trp_target_find(target, it->row, trp_home_here.incarnation, &id, &failure);
    bool guest = executor != NULL && trp_guest_enter(executor);
    if (guest && !trp_actor_is_open(executor, id))
        failure = trp_actor_obituary(id);
    else if (guest)
        message = make_message(it, id);
    if (message != NULL)
        trp_run_call(executor, message);
    else
        (void)trp_entry_fail(it->row, &failure);
    if (executor != NULL)
        trp_target_spare(target, executor, id);
    if (guest)
        trp_guest_leave(executor);
}

// What `again` and `send_again` are to a task that was sent: it->listed says that it is to be run
// once more. Yes is only said to the thread that runs it: others end the row for good.
static _Thread_local const trp_task *running_here; // The innermost: tasks nest.

static bool again_here(trp_retry *retry, const troupe_error *failure)
{
    trp_task *it = (trp_task *)retry;
    if (running_here != it || !trp_task_worth_another(it, failure))
        return false;
    it->retries -= it->retries > 0;
    return true;
}

static void note_again(trp_retry *retry)
{
    ((trp_task *)retry)->listed = true;
}

void trp_task_run_here(trp_task *it)
{
    it->retry = (trp_retry){.again = again_here, .send = note_again};
    trp_entry_retry(it->row, &it->retry);
    if (it->deadline_ns != 0 && !trp_call_expire_at(it->deadline_ns, it->row)) {
        troupe_error failure = trp_failure(TROUPE_NO_MEMORY, TROUPE_OUTCOME_NOT_EXECUTED,
                                           TROUPE_EXECUTED_NO, "no memory for a deadline");
        (void)trp_entry_fail(it->row, &failure);
        return;
    }
    const trp_task *outer = running_here;
    running_here = it;
    do {
        it->listed = false;
        run_once(it);
    } while (it->listed);
    running_here = outer;
}
