// gradients.c: parameters, their buckets, and steps.
//
// A step is a row of started operations: the number of rows, and then each bucket as soon as the
// last of its gradients is ready and the bucket before was started. So they are the same, in the
// same order, on all ranks, whatever the order in which gradients become ready. Buckets as in Li et
// al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training (arXiv 2006.15704).
//
// A bucket's mean is taken where its gradients lie, if they lie side by side in memory that the
// other ranks reach; else they are copied to memory of the bucket's own, and back.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/device/cuda.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <train/collective.h>
#include <train/gradients.h>
#include <train/reduce.h>
#include <train/shared.h>
#include <train/worker.h>

enum {
    FIRST_BUCKET = 1 << 20, // Bytes: small, so that the first sum begins early.
    BUCKET = 25 << 20,
    NAME_MAX_BYTES = 63,
    ALIGN = 64,
};

typedef struct parameter {
    char name[NAME_MAX_BYTES + 1];
    void *values, *gradient;
    size_t count;
    troupe_dtype dtype;
    size_t bucket; // Where its gradient is averaged,
    size_t offset; // and how many bytes behind the bucket's beginning.
    bool ready;
} parameter;

typedef struct bucket {
    unsigned char *at; // What is averaged:
    size_t count;      // so many values.
    troupe_dtype dtype;
    bool in_place;              // Those are the gradients themselves.
    size_t parameters, waiting; // In it; those of them that are not ready.
    uint64_t started;           // Its operation; 0: none yet.
} bucket;

struct troupe_gradients {
    troupe_rank *me;
    trp_member *member;
    struct troupe_gradients *next; // Of the loop's.
    parameter *parameters;
    size_t count;
    bucket *buckets;
    size_t bucket_count;
    void *private; // Memory of buckets, where it is not shared.
    bool is_laid_out, in_step;
    size_t next_bucket; // That is to be started.
    int64_t rows;       // Of all ranks, once that operation has ended,
    uint64_t counting;  // which is this one.
};

static const char name_of[] = "troupe_gradients";

static size_t bytes_of(const parameter *it)
{
    return it->count * troupe_dtype_size(it->dtype);
}

static size_t size_of(const bucket *it)
{
    return it->count * troupe_dtype_size(it->dtype);
}

// ---- registering

troupe_gradients *troupe_gradients_open(troupe_rank *me)
{
    trp_member *member;
    if (TRP_IS_NULL(me)) {
        (void)TRP_NULL(me);
        return NULL;
    }
    if (trp_worker_member(me, "troupe_gradients_open", &member) != TROUPE_OK)
        return NULL;
    troupe_gradients *made = (troupe_gradients *)trp_alloc(sizeof *made);
    if (!made) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "troupe_gradients_open: no memory");
        return NULL;
    }
    made->me = me;
    made->member = member;
    made->next = member->gradients;
    member->gradients = made;
    return made;
}

void trp_gradients_end(trp_member *member)
{
    while (member->gradients) {
        troupe_gradients *it = member->gradients;
        member->gradients = it->next;
        trp_free(it->parameters);
        trp_free(it->buckets);
        trp_free(it->private);
        trp_free(it);
    }
}

static troupe_status check_new(const troupe_gradients *all, const parameter *made)
{
    if (all->is_laid_out)
        return troupe_fail(TROUPE_INVALID,
                           "%s_add: '%s' comes after the first step: expected all parameters "
                           "before it",
                           name_of, made->name);
    if (made->dtype != TROUPE_FLOAT32 && made->dtype != TROUPE_FLOAT64)
        return troupe_fail(TROUPE_INVALID, "%s_add: '%s' is of %s: expected float32 or float64",
                           name_of, made->name, troupe_dtype_text(made->dtype));
    if (trp_cuda_holds(made->values) || trp_cuda_holds(made->gradient))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s_add: '%s' lies in memory of a GPU: expected memory of the host "
                           "(troupe_allreduce_as takes both)",
                           name_of, made->name);
    for (size_t i = 0; i < all->count; i++) {
        const parameter *it = &all->parameters[i];
        if (strcmp(it->name, made->name) == 0)
            return troupe_fail(TROUPE_INVALID, "%s_add: '%s' is registered already", name_of,
                               made->name);
        if (it->gradient == made->gradient)
            return troupe_fail(TROUPE_INVALID, "%s_add: '%s' has the gradient of '%s'", name_of,
                               made->name, it->name);
    }
    return TROUPE_OK;
}

troupe_status troupe_gradients_add_as(troupe_gradients *all, const char *name, void *values,
                                      void *gradient, size_t count, troupe_dtype dtype)
{
    TRP_REQUIRE(all);
    TRP_REQUIRE(name);
    TRP_REQUIRE(values);
    TRP_REQUIRE(gradient);
    TRP_REQUIRE_COUNT(count, sizeof(double));
    trp_member *member;
    size_t length = strlen(name);
    TROUPE_TRY(trp_worker_member(all->me, "troupe_gradients_add", &member));
    if (length == 0 || length > NAME_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID, "%s_add: a name of %zu bytes: expected 1 to %d", name_of,
                           length, NAME_MAX_BYTES);
    parameter made = {.values = values, .gradient = gradient, .count = count, .dtype = dtype};
    memcpy(made.name, name, length + 1);
    TROUPE_TRY(check_new(all, &made));
    parameter *grown = (parameter *)trp_realloc(all->parameters, (all->count + 1) * sizeof *grown);
    if (!grown)
        return troupe_fail(TROUPE_NO_MEMORY, "%s_add: no memory for '%s'", name_of, name);
    all->parameters = grown;
    all->parameters[all->count++] = made;
    return TROUPE_OK;
}

// ---- the first step: all ranks have the same

static troupe_status collective(const troupe_gradients *all, trp_request what)
{
    what.purpose = TRP_GRADIENTS;
    return trp_collective(all->member, &what);
}

static troupe_status broadcast(const troupe_gradients *all, void *data, size_t size, int root)
{
    return collective(
        all, (trp_request){.operation = TRP_BROADCAST, .to = data, .count = size, .root = root});
}

// What a rank says of all its parameters, or of the first ones.
typedef struct summary {
    uint64_t count, hash;
    uint64_t bytes; // Of the memory that its buckets need.
} summary;

// Of the first `count` parameters.
static summary summary_of(const troupe_gradients *all, size_t count)
{
    summary made = {.count = count};
    for (size_t i = 0; i < count && i < all->count; i++) {
        const parameter *it = &all->parameters[i];
        uint64_t so_far[] = {made.hash, trp_digest(it->name, strlen(it->name)), it->count,
                             (uint64_t)it->dtype};
        made.hash = trp_digest(so_far, sizeof so_far);
    }
    return made;
}

static void describe(const troupe_gradients *all, size_t index, char text[128])
{
    if (index >= all->count) {
        snprintf(text, 128, "missing");
        return;
    }
    const parameter *it = &all->parameters[index];
    snprintf(text, 128, "'%s' of %zu %s", it->name, it->count, troupe_dtype_text(it->dtype));
}

// Which rank has other parameters than rank 0, and which is the first; all ranks say the same.
static troupe_status tell_difference(const troupe_gradients *all, int other, size_t most)
{
    char first[128], second[128];
    size_t index = 0;
    for (; index < most; index++) { // Rank 0's hash of each beginning, and that rank's.
        summary theirs = summary_of(all, index + 1), mine = theirs;
        TROUPE_TRY(broadcast(all, &mine, sizeof mine, 0));
        TROUPE_TRY(broadcast(all, &theirs, sizeof theirs, other));
        if (mine.hash != theirs.hash)
            break;
    }
    describe(all, index, first);
    describe(all, index, second);
    TROUPE_TRY(broadcast(all, first, sizeof first, 0));
    TROUPE_TRY(broadcast(all, second, sizeof second, other));
    first[sizeof first - 1] = second[sizeof second - 1] = 0;
    return troupe_fail(TROUPE_INVALID,
                       "%s: parameter %zu is %s on rank 0 and %s on rank %d: all ranks register "
                       "the same in the same order",
                       name_of, index, first, second, other);
}

// *bytes, which this rank's buckets need, becomes what those of all do.
static troupe_status compare_ranks(const troupe_gradients *all, size_t *bytes)
{
    summary mine = summary_of(all, all->count);
    mine.bytes = *bytes;
    size_t world = (size_t)all->member->world;
    summary *of = (summary *)trp_alloc(world * sizeof *of);
    if (!of)
        return trp_member_short(all->member, name_of);
    troupe_status status = collective(
        all,
        (trp_request){.operation = TRP_ALL_GATHER, .from = &mine, .to = of, .count = sizeof mine});
    for (size_t rank = 0; rank < world && status == TROUPE_OK; rank++) {
        *bytes = of[rank].bytes > *bytes ? (size_t)of[rank].bytes : *bytes;
        if (of[rank].count != of[0].count || of[rank].hash != of[0].hash)
            status = tell_difference(all, (int)rank,
                                     of[rank].count > of[0].count ? of[rank].count : of[0].count);
    }
    trp_free(of);
    return status;
}

static troupe_status copy_values(const troupe_gradients *all)
{
    for (size_t i = 0; i < all->count; i++)
        TROUPE_TRY(broadcast(all, all->parameters[i].values, bytes_of(&all->parameters[i]), 0));
    return TROUPE_OK;
}

// ---- the first step: buckets

// The parameters by buckets, from the last one on.
static void lay_out(troupe_gradients *all)
{
    bucket *at = NULL;
    all->bucket_count = 0;
    for (size_t i = all->count; i-- > 0;) {
        parameter *it = &all->parameters[i];
        size_t width = troupe_dtype_size(it->dtype);
        size_t most = all->bucket_count == 1 ? FIRST_BUCKET : BUCKET;
        if (!at || at->dtype != it->dtype || (at->count + it->count) * width > most) {
            at = &all->buckets[all->bucket_count++];
            *at = (bucket){.dtype = it->dtype};
        }
        it->bucket = all->bucket_count - 1;
        at->count += it->count;
        at->parameters++;
    }
    // Within a bucket they lie in the order of registration.
    for (size_t i = 0, offset = 0; i < all->count; i++) {
        parameter *it = &all->parameters[i];
        offset = i > 0 && all->parameters[i - 1].bucket == it->bucket ? offset : 0;
        it->offset = offset;
        offset += bytes_of(it);
    }
}

// Finds the buckets whose gradients lie as they do, where other ranks reach them.
static void find_in_place(troupe_gradients *all)
{
    size_t first = all->count;
    for (size_t k = 0; k < all->bucket_count; k++) {
        bucket *it = &all->buckets[k];
        first -= it->parameters;
        it->at = (unsigned char *)all->parameters[first].gradient;
        it->in_place = trp_shared_place(all->member, it->at, size_of(it)) != 0;
        for (size_t i = first; i < first + it->parameters; i++)
            it->in_place &= all->parameters[i].gradient == it->at + all->parameters[i].offset;
    }
}

// Gives the other buckets their memory, which begins there; returns how many bytes they have.
static size_t divide(troupe_gradients *all, unsigned char *memory)
{
    size_t bytes = 0;
    for (size_t k = 0; k < all->bucket_count; k++) {
        bucket *it = &all->buckets[k];
        if (it->in_place)
            continue;
        it->at = memory ? memory + bytes : NULL;
        bytes += (size_of(it) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return bytes;
}

// As many bytes as the rank needs that needs most.
static troupe_status take_memory(troupe_gradients *all, size_t bytes)
{
    void *shared = NULL;
    if (bytes == 0)
        return TROUPE_OK;
    troupe_status status = trp_shared_alloc(all->member, bytes, &shared);
    if (status != TROUPE_OK && status != TROUPE_UNSUPPORTED && status != TROUPE_NO_MEMORY)
        return status;
    // Without it, sums are not in place, on any rank.
    all->private = shared ? NULL : trp_alloc(bytes);
    if (!shared && !all->private)
        return trp_member_short(all->member, name_of);
    (void)divide(all, (unsigned char *)(shared ? shared : all->private));
    return TROUPE_OK;
}

static troupe_status begin_first(troupe_gradients *all)
{
    if (all->count == 0)
        return troupe_fail(TROUPE_INVALID, "%s_begin: no parameter is registered", name_of);
    trp_free(all->buckets); // Of a step that could not be begun.
    all->buckets = (bucket *)trp_alloc(all->count * sizeof *all->buckets);
    if (!all->buckets)
        return trp_member_short(all->member, name_of);
    lay_out(all);
    find_in_place(all);
    size_t bytes = divide(all, NULL);
    TROUPE_TRY(compare_ranks(all, &bytes));
    TROUPE_TRY(take_memory(all, bytes));
    TROUPE_TRY(copy_values(all));
    size_t values = 0;
    for (size_t i = 0; i < all->count; i++)
        values += all->parameters[i].count;
    trp_log(TRP_INFO,
            "Wrapping %zu parameters of %zu values in %zu buckets for gradient averaging "
            "[rank=%d, world_size=%d]",
            all->count, values, all->bucket_count, all->member->rank, all->member->world);
    all->is_laid_out = true;
    return TROUPE_OK;
}

// ---- steps

static troupe_status start(const troupe_gradients *all, trp_request what, uint64_t *number)
{
    what.operation = TRP_ALLREDUCE;
    what.purpose = TRP_GRADIENTS;
    what.awaited = true;
    return trp_collective_start(all->member, &what, number);
}

troupe_status troupe_gradients_begin(troupe_gradients *all, size_t rows)
{
    TRP_REQUIRE(all);
    trp_member *member;
    TROUPE_TRY(trp_worker_member(all->me, "troupe_gradients_begin", &member));
    if (all->in_step)
        return troupe_fail(TROUPE_INVALID, "%s_begin: the last step has not ended", name_of);
    if (rows > INT64_MAX / TRP_WORLD_MAX)
        return troupe_fail(TROUPE_INVALID, "%s_begin: %zu rows: expected at most %" PRId64, name_of,
                           rows, INT64_MAX / TRP_WORLD_MAX);
    if (!all->is_laid_out)
        TROUPE_TRY(begin_first(all));
    for (size_t i = 0; i < all->bucket_count; i++) {
        all->buckets[i].waiting = all->buckets[i].parameters;
        all->buckets[i].started = 0;
    }
    for (size_t i = 0; i < all->count; i++)
        all->parameters[i].ready = false;
    all->next_bucket = 0;
    all->rows = (int64_t)rows;
    TROUPE_TRY(start(all, (trp_request){.to = &all->rows, .count = 1, .element = TROUPE_INT64},
                     &all->counting));
    all->in_step = true;
    return TROUPE_OK;
}

static troupe_status start_buckets(troupe_gradients *all)
{
    for (; all->next_bucket < all->bucket_count; all->next_bucket++) {
        bucket *it = &all->buckets[all->next_bucket];
        if (it->waiting > 0)
            break;
        TROUPE_TRY(start(all,
                         (trp_request){.to = it->at,
                                       .count = it->count,
                                       .element = it->dtype,
                                       .how = TROUPE_MEAN,
                                       .divisor = &all->rows},
                         &it->started));
    }
    return TROUPE_OK;
}

static troupe_status set_ready(troupe_gradients *all, parameter *it)
{
    if (it->ready)
        return troupe_fail(TROUPE_INVALID, "%s_ready: '%s' is ready already in this step", name_of,
                           it->name);
    bucket *of = &all->buckets[it->bucket];
    if (!of->in_place)
        trp_copy_values(of->at + it->offset, it->gradient, bytes_of(it));
    it->ready = true;
    of->waiting--;
    return start_buckets(all);
}

troupe_status troupe_gradients_ready(troupe_gradients *all, const void *gradient)
{
    TRP_REQUIRE(all);
    TRP_REQUIRE(gradient);
    trp_member *member;
    TROUPE_TRY(trp_worker_member(all->me, "troupe_gradients_ready", &member));
    if (!all->in_step)
        return troupe_fail(TROUPE_INVALID, "%s_ready: no step has been begun", name_of);
    for (size_t i = all->count; i-- > 0;) // Most likely the next one of the backward pass.
        if (all->parameters[i].gradient == gradient)
            return set_ready(all, &all->parameters[i]);
    return troupe_fail(TROUPE_INVALID,
                       "%s_ready: no parameter has its gradient at %p: expected an address that "
                       "was registered",
                       name_of, gradient);
}

// The mean becomes the gradient.
static void take_mean(const troupe_gradients *all, const parameter *it)
{
    const bucket *of = &all->buckets[it->bucket];
    if (all->rows == 0)
        memset(it->gradient, 0, bytes_of(it));
    else if (!of->in_place)
        trp_copy_values(it->gradient, of->at + it->offset, bytes_of(it));
}

// The first failure counts; all are waited for.
static void await(const troupe_gradients *all, uint64_t number, troupe_error *first)
{
    if (number && trp_collective_wait(all->member, number) != TROUPE_OK &&
        first->status == TROUPE_OK)
        *first = *troupe_last_error();
}

static troupe_status end_step(troupe_gradients *all)
{
    troupe_error first = {.status = TROUPE_OK};
    await(all, all->counting, &first);
    size_t begin = all->count;
    for (size_t k = 0; k < all->bucket_count; k++) {
        await(all, all->buckets[k].started, &first);
        for (; begin > 0 && all->parameters[begin - 1].bucket == k; begin--)
            if (first.status == TROUPE_OK)
                take_mean(all, &all->parameters[begin - 1]);
    }
    all->in_step = false;
    return first.status == TROUPE_OK ? TROUPE_OK : trp_error_set(&first);
}

troupe_status troupe_gradients_wait(troupe_gradients *all)
{
    TRP_REQUIRE(all);
    trp_member *member;
    TROUPE_TRY(trp_worker_member(all->me, "troupe_gradients_wait", &member));
    if (!all->in_step)
        return troupe_fail(TROUPE_INVALID, "%s_wait: no step has been begun", name_of);
    for (size_t i = 0; i < all->count; i++)
        if (!all->parameters[i].ready)
            return troupe_fail(TROUPE_INVALID,
                               "%s_wait: '%s' is not ready: expected troupe_gradients_ready of "
                               "each parameter in a step",
                               name_of, all->parameters[i].name);
    return end_step(all);
}

troupe_status troupe_gradients_average(troupe_gradients *all)
{
    TRP_REQUIRE(all);
    trp_member *member;
    TROUPE_TRY(trp_worker_member(all->me, "troupe_gradients_average", &member));
    if (!all->in_step)
        return troupe_fail(TROUPE_INVALID, "%s_average: no step has been begun", name_of);
    for (size_t i = all->count; i-- > 0;)
        if (!all->parameters[i].ready)
            TROUPE_TRY(set_ready(all, &all->parameters[i]));
    return end_step(all);
}
