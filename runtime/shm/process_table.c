// process_table.c: the identity of this process (see shm/process_table.h), and the rows of the
// process table: which processes live, and waiting for that.
#include <runtime/shm/process_table.h>

#include <fcntl.h>
#include <runtime/base/attributes.h>
#include <runtime/base/clock.h>
#include <runtime/base/fault.h>
#include <runtime/base/futex.h>
#include <runtime/base/printable.h>
#include <runtime/shm/carrier.h>
#include <runtime/shm/segment_guard.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

trp_identity trp_self;

static struct {
    _Atomic bool open;
    _Atomic uint32_t inside;
} gate;

uint32_t trp_process_starts(void)
{
    return trp_self.starts;
}

bool trp_process_running(void)
{
    return trp_self.running && !trp_self.forked;
}

TRP_COLD troupe_status why_not(void)
{
    if (trp_self.forked)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "this process is a fork() of one that runs Troupe; "
                           "only the process that called troupe_start may use it");
    if (!trp_self.running || trp_self.ending) // Its keeper may be gone already.
        return troupe_fail(TROUPE_NOT_STARTED,
                           "Troupe is not running in this process: call troupe_start first");
    if (trp_self.runtime_lost)
        return troupe_fail(TROUPE_RUNTIME_LOST, "the node's keeper or node process has died; "
                                                "call troupe_stop, then troupe_start again");
    return TROUPE_OK;
}

troupe_status trp_process_check(void)
{
    if (trp_self.running && !trp_self.forked && !trp_self.runtime_lost)
        return TROUPE_OK;
    return why_not();
}

uint32_t trp_process_slot(void)
{
    return trp_self.slot;
}

uint64_t trp_process_incarnation(void)
{
    return trp_self.incarnation;
}

bool trp_process_is_driver(void)
{
    return trp_self.slot == TRP_PROCESS_DRIVER;
}

bool trp_process_is_local(void)
{
    return trp_self.local;
}

const troupe_options *trp_process_options(void)
{
    return &trp_self.options;
}

void trp_stop_time_begin(void)
{
    trp_self.stop_until_ns = trp_clock_ns() + (int64_t)trp_self.options.stop_timeout_ms * 1000000;
}

int64_t trp_stop_time_left_ms(void)
{
    enum { LEAST_MS = 20 };
    int64_t left_ms = (trp_self.stop_until_ns - trp_clock_ns()) / 1000000;
    return left_ms > LEAST_MS ? left_ms : LEAST_MS;
}

int64_t trp_process_stop_until(void)
{
    return trp_self.stop_until_ns;
}

bool trp_process_ending(void)
{
    return trp_self.ending;
}

bool trp_runtime_is_lost(void)
{
    return trp_self.runtime_lost;
}

bool trp_process_alive(uint32_t process, uint64_t incarnation, char *cause)
{
    return trp_carrier_of(process)->alive(process, incarnation, cause);
}

bool trp_row_alive(uint32_t process, uint64_t incarnation, char *cause)
{
    if (cause != NULL)
        snprintf(cause, sizeof(trp_process_row){0}.cause, "was left by troupe_stop");
    TRP_USE_SEGMENT(false);
    trp_process_row *row = trp_segment_process(process);
    uint32_t state = row->state; // Pairs with the release in trp_process_row_set.
    if (row->incarnation == incarnation && state != TRP_PROCESS_DEAD && state != TRP_PROCESS_FREE)
        return true;
    if (cause == NULL)
        return false;
    snprintf(cause, sizeof row->cause, "%s", row->cause);
    TRP_FAULT("process row");
    if (row->incarnation != incarnation)
        snprintf(cause, sizeof row->cause, "has ended and its place is reused");
    return false;
}

trp_process_end_kind trp_process_end(uint32_t process, uint64_t incarnation, int *number,
                                     uint64_t *culprit)
{
    *number = 0;
    *culprit = 0;
    if (process >= TRP_PROCESSES_MAX)
        return TRP_END_UNKNOWN;
    TRP_USE_SEGMENT(TRP_END_UNKNOWN);
    trp_process_row *row = trp_segment_process(process);
    if (row->state != TRP_PROCESS_DEAD || row->incarnation != incarnation)
        return TRP_END_UNKNOWN;
    int end_number = row->end_number;
    uint64_t blamed = row->culprit;
    trp_process_end_kind kind = (trp_process_end_kind)row->end;
    TRP_FAULT("process row");
    if (row->incarnation != incarnation)
        return TRP_END_UNKNOWN;
    *number = end_number;
    *culprit = blamed;
    return kind;
}

uint32_t trp_process_last_words(uint32_t process, uint64_t incarnation, char *words, size_t size)
{
    words[0] = '\0';
    if (process >= TRP_PROCESSES_MAX)
        return 0;
    TRP_USE_SEGMENT(0);
    trp_process_row *row = trp_segment_process(process);
    uint32_t reason = row->last_reason; // Pairs with the store in trp_process_say_last.
    if (reason == 0 || row->incarnation != incarnation) // The words may be being written.
        return 0;
    snprintf(words, size, "%s", row->last_words);
    TRP_FAULT("process row");
    if (row->incarnation == incarnation)
        return reason;
    words[0] = '\0';
    return 0;
}

bool trp_process_said_final(uint32_t process, uint64_t incarnation)
{
    if (process >= TRP_PROCESSES_MAX)
        return false;
    TRP_USE_SEGMENT(false);
    trp_process_row *row = trp_segment_process(process);
    bool final = row->last_reason != 0;
    TRP_FAULT("process row");
    final = row->last_final != 0 && final;
    return row->incarnation == incarnation && final;
}

void trp_process_say_last(uint32_t reason, const char *words, bool final)
{
    TRP_USE_SEGMENT();
    trp_process_row *row = trp_segment_process(trp_self.slot);
    snprintf(row->last_words, sizeof row->last_words, "%s", words);
    row->last_final = final;
    row->last_reason = reason;
}

void trp_process_blame(uint64_t actor)
{
    trp_segment_process(trp_self.slot)->culprit = actor;
}

int trp_process_pid(uint32_t process)
{
    TRP_USE_SEGMENT(0);
    return process < TRP_PROCESSES_MAX ? trp_segment_process(process)->pid : 0;
}

// What proc(5) says of a process behind its name, which may have any signs in it. NULL: nothing.
static const char *read_stat(int pid, char *line, size_t capacity)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t size = fd >= 0 ? read(fd, line, capacity - 1) : 0;
    if (fd >= 0)
        close(fd);
    line[size > 0 ? size : 0] = '\0';
    const char *name_end = strrchr(line, ')');
    return name_end != NULL ? name_end + 1 : NULL;
}

char trp_process_doing(int pid, int64_t *ran_ms)
{
    char line[512], doing;
    unsigned long user, system;
    const char *rest = read_stat(pid, line, sizeof line);
    if (rest == NULL || sscanf(rest, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &doing,
                               &user, &system) != 3)
        return 0;
    *ran_ms = (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
    return doing;
}

bool trp_process_is_stopped(int pid)
{
    int64_t ran_ms;
    return trp_process_doing(pid, &ran_ms) == 'T';
}

int trp_process_parent(int pid)
{
    char line[512];
    int parent;
    const char *rest = read_stat(pid, line, sizeof line);
    return rest != NULL && sscanf(rest, " %*c %d", &parent) == 1 ? parent : 0;
}

void trp_row_describe(uint32_t process, char *text, size_t size)
{
    snprintf(text, size, "process %u (pid %d)", process, trp_process_pid(process));
}

trp_process_label_text trp_process_text(uint32_t process)
{
    trp_process_label_text label;
    trp_carrier_of(process)->describe(process, label.text, sizeof label.text);
    return label;
}

// Writes the label of that number, if it is the next one.
static void write_label(uint32_t number, const char *text)
{
    TRP_USE_SEGMENT();
    trp_process_row *row = trp_segment_process(trp_self.slot);
    if (row->labelled != number)
        return;
    // Printing would cost a worker 8 pages.
    (void)trp_printable_copy(text, strlen(text), row->labels[number], sizeof row->labels[number]);
    // Pairs with the acquire in trp_row_label: who sees the count sees the text.
    atomic_store_explicit(&row->labelled, number + 1, memory_order_release);
}

void trp_process_label(const char *text)
{
    write_label(0, text);
}

void trp_process_relabel(const char *text)
{
    write_label(1, text);
}

const char *trp_row_label(const trp_process_row *row)
{
    uint32_t count = atomic_load_explicit(&row->labelled, memory_order_acquire);
    return count >= 1 && count <= 2 ? row->labels[count - 1] : NULL;
}

bool trp_process_try_enter(void)
{
    // Before it looks: who closes the gate looks the other way round.
    atomic_fetch_add(&gate.inside, 1);
    if (gate.open)
        return true;
    trp_process_leave();
    return false;
}

troupe_status trp_process_enter(void)
{
    return trp_process_try_enter() ? TROUPE_OK : trp_use_refused();
}

void trp_process_leave(void)
{
    if (atomic_fetch_sub(&gate.inside, 1) == 1 && !gate.open)
        trp_wake(&gate.inside);
}

void trp_process_gate_open(void)
{
    trp_use_allow(true);
    gate.open = true;
}

void trp_process_gate_close(void)
{
    trp_use_allow(false);
    gate.open = false;
    for (uint32_t slot = 0; slot < TRP_PROCESSES_MAX; slot++)
        if (trp_segment_process(slot)->state == TRP_PROCESS_STARTING)
            trp_wake(&trp_segment_process(slot)->state); // trp_process_await gives up.
}

void trp_process_gate_await(int timeout_ms)
{
    int64_t give_up = trp_clock_ns() + (int64_t)timeout_ms * 1000000, left = 0;
    for (uint32_t inside; (inside = gate.inside) != 0 && (left = give_up - trp_clock_ns()) > 0;)
        trp_wait(&gate.inside, inside, left);
    trp_use_await(); // They wait for nobody by now.
}

uint64_t trp_random_incarnation(void)
{
    uint64_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            number = (uint64_t)trp_clock_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
    return number;
}

void trp_socket_path(uint32_t slot, uint64_t incarnation, char path[128])
{
    snprintf(path, 128, "%s/%u.%08x", trp_self.folder, slot, (unsigned)(incarnation >> 32));
}

void trp_socket_keys_path(char path[128])
{
    snprintf(path, 128, "%s/keys", trp_self.folder);
}

void trp_process_row_begin(uint32_t slot, bool isolated)
{
    trp_process_row *row = trp_segment_process(slot);
    row->incarnation = 0; // Who reads the rest looks at this after it.
    row->cause[0] = '\0';
    row->pid = 0;
    row->labelled = 0;
    row->end = TRP_END_UNKNOWN;
    row->culprit = 0;
    row->last_reason = 0;
    row->last_final = 0;
    row->isolated = isolated;
    row->incarnation = trp_random_incarnation();
}

void trp_process_row_set(uint32_t slot, trp_process_state state)
{
    trp_process_row *row = trp_segment_process(slot);
    row->state = state;
    trp_wake(&row->state);
}

trp_process_state trp_process_await(uint32_t slot, uint64_t incarnation, int timeout_ms)
{
    trp_process_row *row = trp_segment_process(slot);
    int64_t give_up = trp_clock_ns() + (int64_t)timeout_ms * 1000000;
    for (;;) {
        uint32_t state = row->state;
        if (row->incarnation != incarnation || !gate.open)
            return TRP_PROCESS_DEAD;
        int64_t left = give_up - trp_clock_ns();
        if (state != TRP_PROCESS_STARTING || left <= 0)
            return (trp_process_state)state;
        trp_wait(&row->state, state, left);
    }
}
