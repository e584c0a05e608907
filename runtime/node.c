// node.c: what a process can ask of its node (see node.h): one request at a time a thread, answered
// by the node process, whose answers the I/O thread hands to the waiting thread here.
#include <runtime/node.h>

#include <pthread.h>
#include <runtime/clock.h>
#include <runtime/identity.h>
#include <runtime/wire.h>
#include <string.h>
#include <unistd.h>

enum {
    READY_TIMEOUT_MS = 5000, // For a new process to reach troupe_start.
};

typedef struct request {
    struct request *next;
    uint64_t number;
    bool done;
    troupe_status status;
    char text[512]; // The sentence of a failure.
    uint64_t target, schema;
    unsigned char value[TRP_NAMED_VALUE_MAX];
    size_t value_size;
} request;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    request *waiting;
    uint64_t last_number;
} requests = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

void trp_node_answered(const trp_frame *frame)
{
    pthread_mutex_lock(&requests.lock);
    for (request *it = requests.waiting; it != NULL; it = it->next) {
        if (it->number != frame->call || it->done)
            continue;
        it->status = (troupe_status)frame->status;
        it->target = frame->target;
        it->schema = frame->schema;
        if (frame->status != TROUPE_OK) {
            size_t size =
                frame->body_size < sizeof it->text - 1 ? frame->body_size : sizeof it->text - 1;
            memcpy(it->text, frame->body, size);
            it->text[size] = '\0';
        } else if (frame->body_size > 0 && frame->body_size <= sizeof it->value) {
            memcpy(it->value, frame->body, frame->body_size);
            it->value_size = frame->body_size;
        }
        it->done = true;
    }
    pthread_cond_broadcast(&requests.answered);
    pthread_mutex_unlock(&requests.lock);
}

void trp_node_lost(void)
{
    pthread_mutex_lock(&requests.lock);
    for (request *it = requests.waiting; it != NULL; it = it->next) {
        if (it->done)
            continue;
        it->done = true;
        it->status = trp_self.ending ? TROUPE_NOT_STARTED : TROUPE_RUNTIME_LOST;
        strcpy(it->text, trp_self.ending ? "the runtime was stopped before the node answered"
                                         : "the node process has died before it answered");
    }
    pthread_cond_broadcast(&requests.answered);
    pthread_mutex_unlock(&requests.lock);
}

static troupe_status send_ask(trp_frame *frame)
{
    frame->kind = TRP_FRAME_ASK;
    return trp_process_send(TRP_PROCESS_NODE, trp_segment_process(TRP_PROCESS_NODE)->incarnation,
                            frame, 0);
}

// Sends the request and waits for its answer. Inside the gate.
static troupe_status ask_inside(trp_frame *frame, request *mine)
{
    pthread_mutex_lock(&requests.lock);
    mine->number = ++requests.last_number;
    mine->next = requests.waiting;
    requests.waiting = mine;
    pthread_mutex_unlock(&requests.lock);

    frame->call = mine->number;
    troupe_status sent = send_ask(frame);

    pthread_mutex_lock(&requests.lock);
    // Lost between the check above and the registration: nobody would end this wait.
    while (sent == TROUPE_OK && !mine->done && !trp_self.runtime_lost)
        pthread_cond_wait(&requests.answered, &requests.lock);
    request **at = &requests.waiting;
    while (*at != mine)
        at = &(*at)->next;
    *at = mine->next;
    pthread_mutex_unlock(&requests.lock);

    if (sent != TROUPE_OK)
        return troupe_fail(TROUPE_RUNTIME_LOST, "the node process cannot be reached");
    if (!mine->done)
        return trp_process_check();
    return mine->status == TROUPE_OK ? TROUPE_OK : troupe_fail(mine->status, "%s", mine->text);
}

static troupe_status ask(trp_frame *frame, request *mine)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    troupe_status status = ask_inside(frame, mine);
    trp_process_leave();
    return status;
}

static troupe_status ask_worker(bool isolated, uint32_t *process, uint64_t *incarnation)
{
    request mine = {0};
    trp_frame frame = {.method = TRP_ASK_WORKER, .target = isolated};
    TROUPE_TRY(ask(&frame, &mine));
    uint32_t slot = (uint32_t)mine.target;
    char cause[112];
    switch (trp_process_await(slot, mine.schema, READY_TIMEOUT_MS)) {
    case TRP_PROCESS_READY:
        *process = slot;
        *incarnation = mine.schema;
        return TROUPE_OK;
    case TRP_PROCESS_STARTING:
        (void)trp_node_kill(slot, mine.schema, "did not reach troupe_start in time");
        return troupe_fail(TROUPE_IO,
                           "worker process %u (pid %d) did not reach troupe_start within %d s: "
                           "troupe_start must come first in main, in workers too",
                           slot, trp_process_pid(slot), READY_TIMEOUT_MS / 1000);
    default:
        if (trp_process_alive(slot, mine.schema, cause))
            return troupe_fail(TROUPE_NOT_STARTED,
                               "the runtime was stopped before worker process %u was ready", slot);
        return troupe_fail(TROUPE_IO, "worker process %u (pid %d) %s before it was ready", slot,
                           trp_process_pid(slot), cause);
    }
}

troupe_status trp_node_worker(bool isolated, uint32_t *process, uint64_t *incarnation)
{
    TROUPE_TRY(trp_process_check());
    TROUPE_TRY(trp_process_enter());
    troupe_status status = ask_worker(isolated, process, incarnation);
    trp_process_leave();
    return status;
}

troupe_status trp_node_kill(uint32_t process, uint64_t incarnation, const char *cause)
{
    request mine = {0};
    trp_frame frame = {.method = TRP_ASK_KILL,
                       .target = process,
                       .schema = incarnation,
                       .body = cause,
                       .body_size = strlen(cause)};
    return ask(&frame, &mine);
}

static troupe_status check_name(const char *name)
{
    size_t size = name == NULL ? 0 : strnlen(name, TRP_NAME_MAX + 1);
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._/-";
    if (size < 1 || size > TRP_NAME_MAX || strspn(name, allowed) != size)
        return troupe_fail(TROUPE_INVALID,
                           "'%.64s' is no name: expected 1 to %d characters of [A-Za-z0-9._/-]",
                           name == NULL ? "(null)" : name, TRP_NAME_MAX);
    return TROUPE_OK;
}

// Sends a request about a name, with a value (NULL: none) behind it.
static troupe_status ask_name(trp_ask what, const char *name, const void *value, size_t size,
                              request *mine)
{
    trp_buffer body = {0};
    trp_write_array(&body, 2);
    trp_write_text(&body, name);
    trp_write_bytes(&body, value, size);
    trp_frame frame = {.method = what, .body = body.data, .body_size = body.size};
    troupe_status status =
        body.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a name") : ask(&frame, mine);
    trp_buffer_free(&body);
    return status;
}

troupe_status trp_node_name_put(const char *name, const void *value, size_t size)
{
    TROUPE_TRY(check_name(name));
    if (size > TRP_NAMED_VALUE_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "a named value of %zu bytes is above the limit of %d",
                           size, TRP_NAMED_VALUE_MAX);
    request mine = {0};
    return ask_name(TRP_ASK_NAME_PUT, name, value, size, &mine);
}

troupe_status trp_node_name_get(const char *name, void *value, size_t *size)
{
    TROUPE_TRY(check_name(name));
    request mine = {0};
    TROUPE_TRY(ask_name(TRP_ASK_NAME_GET, name, "", 0, &mine));
    memcpy(value, mine.value, mine.value_size);
    *size = mine.value_size;
    return TROUPE_OK;
}

void trp_node_name_drop(const char *name)
{
    request mine = {0};
    if (check_name(name) == TROUPE_OK)
        (void)ask_name(TRP_ASK_NAME_DROP, name, "", 0, &mine);
}

troupe_status trp_node_stop(void)
{
    trp_frame frame = {.method = TRP_ASK_STOP};
    return send_ask(&frame);
}
