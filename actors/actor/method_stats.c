// method_stats.c: see actor/method_stats.h: the histograms of all methods of this process, and what
// goes into its trace.
//
// The histograms are in a table by method that is only added to: a method's row is found by a look
// or two without a lock. Rows stay when the runtime stops; the next start empties them.
#include <actors/actor/method_stats.h>

#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/host/trace.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <unistd.h>

enum { GAUGES_MAX = 4096 };

_Atomic bool trp_measures;

static bool gauging;                                   // Set by trp_measure_start alone.
static trp_gauge *_Atomic gauges[GAUGES_MAX] TRP_VAST; // By a hash of the method's address.
static _Atomic bool is_full;

void trp_measure_start(void)
{
    // There are rows only after a start that measured; else the table is not touched.
    for (size_t i = 0; gauging && i < GAUGES_MAX; i++) {
        trp_gauge *gauge = atomic_load(&gauges[i]);
        if (gauge != NULL) {
            trp_histogram_clear(&gauge->waits);
            trp_histogram_clear(&gauge->runs);
        }
    }
    gauging = trp_process_options()->measure;
    atomic_store(&trp_measures, gauging || trp_trace_records());
}

static trp_gauge *make_gauge(const trp_class *class_, const trp_method *method)
{
    trp_gauge *gauge = trp_alloc(sizeof *gauge);
    if (gauge != NULL) {
        gauge->class_ = class_;
        gauge->method = method;
    }
    return gauge;
}

// The method's row; NULL: there is no memory, or no row left.
static trp_gauge *gauge_of(const trp_class *class_, const trp_method *method)
{
    size_t at = (size_t)((uintptr_t)method * 0x9e3779b97f4a7c15u >> 52);
    for (size_t tried = 0; tried < GAUGES_MAX; tried++, at++) {
        trp_gauge *_Atomic *row = &gauges[at % GAUGES_MAX];
        // Pairs with the exchange of who made it.
        trp_gauge *gauge = atomic_load_explicit(row, memory_order_acquire);
        if (gauge == NULL) {
            trp_gauge *mine = make_gauge(class_, method);
            if (mine == NULL)
                return NULL;
            if (atomic_compare_exchange_strong(row, &gauge, mine))
                return mine;
            trp_free(mine); // Another thread was faster, maybe with the same method.
        }
        if (gauge->method == method)
            return gauge;
    }
    if (!atomic_exchange(&is_full, true))
        trp_log(TRP_WARN, "more than %d methods run here: the others are not measured",
                (int)GAUGES_MAX);
    return NULL;
}

// What the library runs for itself is nobody's program.
static bool is_own(const trp_class *class_)
{
    return strncmp(class_->row->name, "trp_", 4) == 0;
}

void trp_measure_ran(const trp_actor *actor, const trp_message *message, int64_t begun_ns)
{
    const trp_class *class_ = atomic_load_explicit(&actor->class_, memory_order_relaxed);
    int64_t ended_ns = trp_clock_ns();
    if (is_own(class_))
        return;
    trp_gauge *gauge = gauging ? gauge_of(class_, message->method) : NULL;
    if (gauge != NULL) {
        int64_t waited = message->pushed_ns != 0 ? begun_ns - message->pushed_ns : 0;
        trp_histogram_add(&gauge->waits, waited > 0 ? (uint64_t)waited : 0);
        trp_histogram_add(&gauge->runs, (uint64_t)(ended_ns - begun_ns));
    }
    if (trp_trace_records())
        trp_trace_add(&(trp_trace_event){
            .begun_ns = begun_ns,
            .lasted_ns = ended_ns - begun_ns,
            .class_name = class_->row->name,
            .method = actor->executor ? NULL : message->method->row->name,
            .actor = trp_actor_id(actor),
            .tid = gettid(),
            .caller = message->remote != NULL ? trp_process_pid(message->remote->process)
                                              : trp_home_here.pid});
}

void trp_measure_life(const trp_actor *actor, const char *what)
{
    const trp_class *class_ = atomic_load_explicit(&actor->class_, memory_order_relaxed);
    if (actor->executor || !trp_trace_records() || is_own(class_))
        return;
    trp_trace_add(&(trp_trace_event){.begun_ns = trp_clock_ns(),
                                     .instant = what,
                                     .class_name = class_->row->name,
                                     .actor = trp_actor_id(actor),
                                     .tid = gettid()});
}

void trp_measure_each(void (*see)(trp_gauge *gauge, void *user), void *user)
{
    for (size_t i = 0; i < GAUGES_MAX; i++) {
        trp_gauge *gauge = atomic_load_explicit(&gauges[i], memory_order_acquire);
        if (gauge != NULL)
            see(gauge, user);
    }
}
