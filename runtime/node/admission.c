// admission.c: claims for what the node has (see admission.h).
//
// A claim belongs to the process that asked until it is given to the one where the actor lives, and
// ends with whichever has it. Its number is all that others know of it.
#include <runtime/node/admission.h>

#include <runtime/base/clock.h>
#include <runtime/base/hash.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/ask.h>
#include <runtime/link/request.h>
#include <runtime/node/limits.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

enum { TELL_MS = 2000, WHO_MAX = 96, WAITS_MAX = 256, TEXT_MAX = 1024 };

typedef struct holding {
    trp_claim claim;
    uint64_t id;
    uint32_t owner;
    uint64_t owner_incarnation;
    trp_frame request;   // Whose answer is owed while the claim waits; without its body.
    int64_t since_ms;    // When it was made.
    int64_t deadline_ms; // Until when it may wait; -1: for ever.
    bool patient;        // It is not logged.
    bool told;           // Its wait has been logged.
    char who[WHO_MAX];   // The actor that it is for.
    UT_hash_handle hh;
} holding;

static struct {
    bool made;
    bool stopping; // No claim is taken any more.
    trp_resources books;
    holding *all; // By id.
    uint64_t last_id;
} admission;

troupe_status trp_admission_books(const troupe_options *options, trp_resources *books)
{
    int64_t cpus;
    TROUPE_TRY(trp_amount_count(".cpus of troupe_start", options->cpus, &cpus));
    trp_resources_init(books, cpus, options->gpus > 0 ? options->gpus : 0,
                       (int64_t)options->memory_bytes);
    return trp_resources_add(books, options->resources);
}

static trp_resources *books(void)
{
    // The options were checked by troupe_start.
    if (!admission.made)
        admission.made = trp_admission_books(&trp_self.options, &admission.books) == TROUPE_OK;
    return &admission.books;
}

static void forget(holding *gone)
{
    trp_resources_release(books(), &gone->claim);
    HASH_DEL(admission.all, gone);
    trp_free(gone);
}

// Each id with the comma or the end of the text behind it.
_Static_assert((int)TRP_CLAIM_GPUS_MAX >= (int)TRP_GPUS_MAX * (int)TRP_GPU_ID_MAX,
               "an answer holds the ids of all GPUs");

static void answer_granted(holding *granted)
{
    char gpus[TRP_CLAIM_GPUS_MAX] = "", id[TRP_GPU_ID_MAX];
    size_t used = 0;
    for (int i = 0; i < TRP_GPUS_MAX; i++) {
        if ((granted->claim.gpus >> i & 1) == 0)
            continue;
        trp_gpu_id(i, id);
        used += (size_t)snprintf(gpus + used, sizeof gpus - used, "%s%s", used > 0 ? "," : "", id);
    }
    trp_request_answer(&granted->request, &(trp_frame){.status = TROUPE_OK,
                                                       .target = granted->id,
                                                       .body = gpus,
                                                       .body_size = strlen(gpus)});
}

static void admit(void)
{
    for (trp_claim *claim; (claim = trp_resources_admit(books(), trp_clock_ms())) != NULL;) {
        holding *granted = (holding *)(void *)((char *)claim - offsetof(holding, claim));
        if (granted->told)
            trp_log(TRP_WARN, "%s got its resources after %.1f s", granted->who,
                    (double)(trp_clock_ms() - granted->since_ms) / 1000);
        answer_granted(granted);
    }
}

// ---- requests

static troupe_status read_text(trp_reader *in, char *text, size_t capacity)
{
    const char *found;
    size_t size;
    TROUPE_TRY(trp_read_text(in, &found, &size));
    if (size >= capacity)
        return troupe_fail(TROUPE_INVALID, "the resources of an actor take more than %zu bytes",
                           capacity - 1);
    if (found != NULL)
        memcpy(text, found, size);
    text[size] = '\0';
    return TROUPE_OK;
}

// Reads [cpus, gpus, memory, text, wait, who, patient, limit].
static troupe_status read_claim(const trp_frame *frame, holding *made)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    char text[TEXT_MAX];
    uint32_t count;
    uint64_t amounts[3], wait_ms, limit_ms;
    TROUPE_TRY(trp_read_array(&in, &count));
    for (int i = 0; i < 3; i++)
        TROUPE_TRY(trp_read_uint(&in, &amounts[i]));
    TROUPE_TRY(read_text(&in, text, sizeof text));
    TROUPE_TRY(trp_read_uint(&in, &wait_ms));
    TROUPE_TRY(read_text(&in, made->who, sizeof made->who));
    TROUPE_TRY(trp_read_bool(&in, &made->patient));
    TROUPE_TRY(trp_read_uint(&in, &limit_ms));
    if (count != 8 || wait_ms > UINT32_MAX || limit_ms > TRP_CLAIM_LIMIT_MAX_MS)
        return troupe_fail(TROUPE_MALFORMED, "a request for resources is malformed");
    for (int i = 0; i < 3; i++)
        made->claim.amounts.of[i] = amounts[i] < INT64_MAX ? (int64_t)amounts[i] : INT64_MAX;
    made->claim.limit_ms = (int64_t)limit_ms;
    made->since_ms = trp_clock_ms();
    made->deadline_ms = wait_ms > 0 ? made->since_ms + (int64_t)wait_ms : -1;
    return trp_resources_read(books(), text, &made->claim.amounts);
}

static void serve_claim(const trp_frame *frame)
{
    if (admission.stopping) { // Nobody would answer: those that waited have been told.
        trp_request_refuse(frame, troupe_fail(TROUPE_NOT_STARTED, "the node is being stopped"));
        return;
    }
    holding *made = trp_alloc(sizeof *made);
    if (made == NULL) {
        trp_request_refuse(frame, troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim"));
        return;
    }
    troupe_status status = read_claim(frame, made);
    if (status == TROUPE_OK)
        status = trp_resources_claim(books(), &made->claim);
    if (status != TROUPE_OK) {
        trp_request_refuse(frame, status);
        trp_free(made);
        return;
    }
    made->id = ++admission.last_id;
    made->owner = frame->from;
    made->owner_incarnation = frame->from_incarnation;
    made->request = *frame;
    made->request.body = NULL;
    made->request.body_size = 0;
    TRP_HASH_ADD(hh, admission.all, id, sizeof made->id, made);
    if (TRP_HASH_HAS(hh, made)) {
        admit();
    } else {
        trp_request_refuse(frame, troupe_fail(TROUPE_NO_MEMORY, "no memory for a claim"));
        trp_free(made);
    }
}

static holding *find(uint64_t id)
{
    holding *found;
    HASH_FIND(hh, admission.all, &id, sizeof id, found);
    return found;
}

static void serve_give(const trp_frame *frame)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    uint64_t slot;
    holding *given = find(frame->target);
    if (trp_read_uint(&in, &slot) != TROUPE_OK || slot >= TRP_PROCESSES_MAX || given == NULL) {
        trp_request_refuse(frame, troupe_fail(TROUPE_NOT_FOUND, "claim %llu is not held",
                                              (unsigned long long)frame->target));
        return;
    }
    given->owner = (uint32_t)slot;
    given->owner_incarnation = frame->schema;
    if (!trp_process_alive(given->owner, given->owner_incarnation, NULL)) {
        forget(given); // Its end has been dealt with already.
        admit();
    }
    trp_request_answer(frame, &(trp_frame){.status = TROUPE_OK});
}

// By number, or as the request of the sender that waits still.
static void serve_drop(const trp_frame *frame)
{
    holding *dropped = NULL, *next;
    if (frame->target != 0) {
        dropped = find(frame->target);
    } else {
        HASH_ITER(hh, admission.all, dropped, next)
        if (dropped->request.call == frame->schema && dropped->request.from == frame->from &&
            dropped->request.from_incarnation == frame->from_incarnation)
            break;
    }
    if (dropped == NULL)
        return;
    forget(dropped);
    admit();
}

// Writes [[[name, total, free], ...], [[who, process, waited, why], ...], waiting].
static void serve_list(const trp_frame *frame)
{
    trp_buffer out = {0};
    const trp_resources *all = books();
    uint32_t waiting = 0;
    for (const trp_claim *it = all->first; it != NULL; it = it->next)
        waiting++;
    trp_write_array(&out, 3);
    trp_write_array(&out, (uint32_t)all->count);
    for (int i = 0; i < all->count; i++) {
        trp_write_array(&out, 3);
        trp_write_text(&out, all->names[i]);
        trp_write_uint(&out, (uint64_t)all->total.of[i]);
        trp_write_uint(&out, (uint64_t)all->free.of[i]);
    }
    uint32_t listed = waiting < WAITS_MAX ? waiting : WAITS_MAX;
    trp_write_array(&out, listed);
    for (const trp_claim *it = all->first; it != NULL && listed > 0; it = it->next, listed--) {
        const holding *one =
            (const holding *)(const void *)((const char *)it - offsetof(holding, claim));
        char why[160];
        trp_resources_why(all, it, why, sizeof why);
        trp_write_array(&out, 4);
        trp_write_text(&out, one->who);
        trp_write_uint(&out, one->owner);
        trp_write_uint(&out, (uint64_t)(trp_clock_ms() - one->since_ms));
        trp_write_text(&out, why);
    }
    trp_write_uint(&out, waiting);
    if (out.failed)
        trp_request_refuse(frame, troupe_fail(TROUPE_NO_MEMORY, "no memory for an answer"));
    else
        trp_request_answer(
            frame, &(trp_frame){.status = TROUPE_OK, .body = out.data, .body_size = out.size});
    trp_buffer_free(&out);
}

bool trp_admission_serve(const trp_frame *frame)
{
    switch (frame->method) {
    case TRP_ASK_CLAIM:
        serve_claim(frame);
        return true;
    case TRP_ASK_CLAIM_GIVE:
        serve_give(frame);
        return true;
    case TRP_ASK_CLAIM_DROP:
        serve_drop(frame);
        return true;
    case TRP_ASK_CLAIM_LIST:
        serve_list(frame);
        return true;
    default:
        return false;
    }
}

// ---- ends

void trp_admission_bury(uint32_t process, uint64_t incarnation)
{
    holding *it, *next;
    bool freed = false;
    HASH_ITER(hh, admission.all, it, next)
    if (it->owner == process && it->owner_incarnation == incarnation) {
        forget(it);
        freed = true;
    }
    if (freed)
        admit();
}

void trp_admission_stop(void)
{
    admission.stopping = true;
    holding *it, *next;
    HASH_ITER(hh, admission.all, it, next)
    if (it->claim.state == TRP_CLAIM_WAITING) {
        trp_request_refuse(&it->request,
                           troupe_fail(TROUPE_NOT_STARTED, "the node is being stopped"));
        forget(it);
    }
}

void trp_admission_reset(void)
{
    holding *it, *next;
    HASH_ITER(hh, admission.all, it, next)
    forget(it);
    admission.made = false;
    admission.stopping = false;
}

// The wait of one claim: ends it if its time is over, logs it when it has become long. When the
// next of that is due; -1: never.
static int64_t look_at(holding *it, int64_t now_ms)
{
    bool late = it->deadline_ms >= 0 && it->deadline_ms <= now_ms;
    bool tell = !it->patient && !it->told && it->since_ms + TELL_MS <= now_ms;
    char why[160] = "";
    if (late || tell)
        trp_resources_why(books(), &it->claim, why, sizeof why);
    if (late) {
        trp_request_refuse(&it->request,
                           troupe_fail(TROUPE_DEADLINE_EXCEEDED, "%s has waited %.1f s for %s",
                                       it->who, (double)(now_ms - it->since_ms) / 1000, why));
        forget(it);
        admit();
        return -1;
    }
    if (tell) {
        it->told = true;
        trp_log(TRP_WARN, "%s waits for %s", it->who, why);
    }
    int64_t due = it->told || it->patient ? -1 : it->since_ms + TELL_MS;
    return it->deadline_ms >= 0 && (due < 0 || it->deadline_ms < due) ? it->deadline_ms : due;
}

int trp_admission_tick(void)
{
    int64_t first = -1, now_ms = trp_clock_ms();
    if (admission.books.first == NULL)
        return -1;
    holding *it, *next;
    HASH_ITER(hh, admission.all, it, next)
    {
        int64_t due = it->claim.state == TRP_CLAIM_WAITING ? look_at(it, now_ms) : -1;
        if (due >= 0 && (first < 0 || due < first))
            first = due;
    }
    return first < 0 ? -1 : first > now_ms ? (int)(first - now_ms) : 0;
}
