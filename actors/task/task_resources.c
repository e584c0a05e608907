// task_resources.c: see task/task_resources.h. The node answers on a thread that holds the node's
// lock, so its answer is only noted there; what follows from it is done where it is taken or given
// up.
#include <actors/task/task_resources.h>

#include <actors/actor/spawn_resources.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/node/resource_ledger.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // Of the states of all.

bool trp_allot_wanted(const troupe_run_options *how)
{
    return how->cpus != 0 || how->gpus != 0 || how->memory_bytes != 0 ||
           (how->resources != NULL && how->resources[0] != '\0');
}

troupe_status trp_allot_make(const troupe_run_options *how, const char *who,
                             void (*ready)(trp_allot *allot), trp_allot *allot)
{
    trp_want want = {.who = who, .patient = true};
    TROUPE_TRY(trp_amount_count(".cpus of a task", how->cpus, &want.cpus));
    TROUPE_TRY(trp_amount_count(".gpus of a task", how->gpus, &want.gpus));
    if (how->memory_bytes > INT64_MAX)
        return troupe_fail(TROUPE_INVALID,
                           ".memory_bytes of a task is %zu, more than a machine can have",
                           how->memory_bytes);
    want.memory_bytes = (int64_t)how->memory_bytes;
    if (how->resources != NULL && (allot->resources = trp_strdup(how->resources)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the resources of a task");
    want.resources = allot->resources;
    allot->want = want;
    allot->ready = ready;
    return TROUPE_OK;
}

// ---- asking

// With the lock held. Without memory for the words a refusal goes without them; a grant without its
// GPUs is no good.
static void note(trp_allot *allot, troupe_status status, uint64_t claim, const char *text)
{
    trp_free(allot->text);
    allot->text = text[0] != '\0' ? trp_strdup(text) : NULL;
    bool lost = status == TROUPE_OK && text[0] != '\0' && allot->text == NULL;
    allot->status = lost ? TROUPE_NO_MEMORY : status;
    allot->claim = claim;
    allot->state = allot->status == TROUPE_OK ? TRP_ALLOT_GRANTED : TRP_ALLOT_REFUSED;
}

static void claimed(void *user, troupe_status status, uint64_t claim, const char *text)
{
    trp_allot *allot = user;
    pthread_mutex_lock(&lock);
    bool wanted = allot->state == TRP_ALLOT_ASKED;
    allot->told = true;
    if (wanted)
        note(allot, status, status == TROUPE_OK ? claim : 0, text);
    else if (status == TROUPE_OK)
        allot->claim = claim; // Whoever gives it up gives that back.
    pthread_mutex_unlock(&lock);
    if (wanted)
        allot->ready(allot);
}

// What has come for one that was given up. With the lock held.
static uint64_t take_unwanted(trp_allot *allot)
{
    uint64_t claim = allot->state == TRP_ALLOT_GIVEN_UP ? allot->claim : 0;
    if (claim != 0)
        allot->claim = 0;
    return claim;
}

bool trp_allot_ask(trp_allot *allot)
{
    uint64_t request = 0;
    pthread_mutex_lock(&lock);
    bool wanted = allot->state != TRP_ALLOT_GIVEN_UP;
    if (wanted)
        allot->state = TRP_ALLOT_ASKED;
    allot->told = false;
    allot->request = allot->claim = 0;
    pthread_mutex_unlock(&lock);
    if (!wanted)
        return false;
    troupe_status status = trp_node_claim_begin(&allot->want, claimed, allot, &request);
    pthread_mutex_lock(&lock);
    bool begun = status == TROUPE_OK, late = begun && allot->state == TRP_ALLOT_GIVEN_UP;
    bool refused = !begun && !allot->told && allot->state == TRP_ALLOT_ASKED;
    if (begun && allot->state == TRP_ALLOT_ASKED)
        allot->request = request;
    if (refused)
        note(allot, status, 0, troupe_last_error()->text);
    pthread_mutex_unlock(&lock);
    if (refused)
        allot->ready(allot);
    if (!late) // Else it was given up before anybody knew the request's number.
        return true;
    trp_node_claim_abandon(request); // From now on nobody tells.
    pthread_mutex_lock(&lock);
    uint64_t claim = take_unwanted(allot);
    pthread_mutex_unlock(&lock);
    if (claim != 0)
        trp_node_claim_drop(claim);
    return true;
}

// ---- what has been decided

bool trp_allot_decided(trp_allot *allot)
{
    pthread_mutex_lock(&lock);
    bool decided = allot->state > TRP_ALLOT_ASKED;
    pthread_mutex_unlock(&lock);
    return decided;
}

bool trp_allot_waits(trp_allot *allot)
{
    pthread_mutex_lock(&lock);
    bool waits = allot->state == TRP_ALLOT_ASKED;
    pthread_mutex_unlock(&lock);
    return waits;
}

troupe_status trp_allot_take(trp_allot *allot)
{
    pthread_mutex_lock(&lock);
    trp_allot_state state = allot->state;
    troupe_status status = allot->status;
    uint64_t claim = allot->claim;
    char *text = allot->text;
    if (state == TRP_ALLOT_GRANTED || state == TRP_ALLOT_REFUSED) {
        allot->state = TRP_ALLOT_NONE;
        allot->claim = 0;
        allot->text = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (state != TRP_ALLOT_GRANTED && state != TRP_ALLOT_REFUSED)
        return troupe_fail(TROUPE_CANCELLED, "the task has ended before it could be sent");
    if (state == TRP_ALLOT_GRANTED) {
        trp_need_bring(claim, text);
        return TROUPE_OK;
    }
    if (claim != 0)
        trp_node_claim_drop(claim);
    status = troupe_fail(status, "%s", text != NULL ? text : troupe_strerror(status));
    trp_free(text);
    return status;
}

bool trp_allot_give_up(trp_allot *allot)
{
    pthread_mutex_lock(&lock);
    bool asked = allot->state == TRP_ALLOT_ASKED;
    uint64_t request = allot->request;
    allot->state = TRP_ALLOT_GIVEN_UP;
    uint64_t claim = asked ? 0 : take_unwanted(allot);
    pthread_mutex_unlock(&lock);
    if (asked && request != 0) {
        trp_node_claim_abandon(request);
        pthread_mutex_lock(&lock); // It may have come meanwhile.
        claim = take_unwanted(allot);
        pthread_mutex_unlock(&lock);
    }
    if (claim != 0)
        trp_node_claim_drop(claim);
    return asked;
}

void trp_allot_free(trp_allot *allot)
{
    trp_free(allot->resources);
    trp_free(allot->text);
}
