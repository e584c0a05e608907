// explore.c: threads, and the search through their schedules (see explore.h).
#include <support.h>

#include <interleave/explore.h>
#include <interleave/memory.h>
#include <runtime/shm/layout.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <interleave/inner.h>

enum {
    STACK = 256 << 10,
    PATH = 1 << 16,
    STEPS_MAX = 1 << 20,
    OPTIONS = EXPLORE_INNER_THREADS + 1,
    GROWTH = 60, // Times as many schedules with one preemption more, about.
};

// One point at which this schedule might have gone otherwise.
typedef struct decision {
    long step;
    uint8_t options[OPTIONS], count, chosen;
} decision;

explore_run run;
explore_inner_thread threads[EXPLORE_INNER_THREADS];
int thread_count;

static const explore_world *world;
static const explore_scene *scene;
static const explore_options *how;
static jmp_buf home;

static decision path[PATH];
static int path_length; // Of what is to be chosen as it was.
static int path_at;
static int bound; // Of what a schedule may spend.
static bool told; // Each step.

// ---- threads and processes

static struct process {
    uint32_t number;
    char *state, *initial;
} processes[EXPLORE_INNER_THREADS];
static int process_count;

static struct process *process_of(uint32_t number)
{
    for (int i = 0; i < process_count; i++)
        if (processes[i].number == number)
            return &processes[i];
    processes[process_count] = (struct process){
        .number = number, .state = memory_new_state(false), .initial = memory_new_state(false)};
    return &processes[process_count++];
}

static void enter(int to)
{
    run.current = to;
    memory_load(process_of(threads[to].process)->state, false);
    memory_load(threads[to].state, true);
    _longjmp(threads[to].at, 1);
}

static void leave(void)
{
    memory_save(process_of(threads[run.current].process)->state, false);
    memory_save(threads[run.current].state, true);
}

static void transfer(int to)
{
    if (_setjmp(threads[run.current].at) != 0)
        return;
    leave();
    enter(to);
}

static void finish(void)
{
    leave();
    _longjmp(home, 1);
}

char explore_letter(int thread)
{
    return thread == EXPLORE_CHECK ? '=' : thread == EXPLORE_NODE ? 'n' : (char)('a' + thread);
}

void explore_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!run.failed)
        (void)vsnprintf(run.failure, sizeof run.failure, format, arguments);
    va_end(arguments);
    run.failed = true;
    if (run.current < 0)
        fail_msg("%s: %s", scene->name, run.failure);
    _longjmp(home, 1);
}

// ---- choosing

// One of these, the first of which is the usual one.
static int choose(const uint8_t *options, int count)
{
    if (schedule_is_told())
        return schedule_choose(options, count);
    if (count == 1)
        return options[0];
    if (path_at == path_length) {
        if (path_length == PATH)
            explore_fail("the schedule has more than %d points", PATH);
        decision *it = &path[path_length++];
        *it = (decision){.step = run.steps, .count = (uint8_t)count};
        memcpy(it->options, options, (size_t)count);
    }
    const decision *it = &path[path_at];
    if (it->step > run.steps) // A point that is new: the search will begin anew.
        return options[0];
    if (it->step < run.steps)
        explore_fail("the same schedule was another one this time, at step %ld", it->step);
    path_at++;
    return schedule_note(it->options[it->chosen], it->chosen == 0);
}

static int find_others(uint8_t *options, bool also_who_yielded)
{
    int count = 0;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].life == EXPLORE_READY && i != run.current &&
            (also_who_yielded || !threads[i].yielded))
            options[count++] = (uint8_t)i;
    return count;
}

// After the current thread cannot go on.
static void go_on_elsewhere(void)
{
    uint8_t options[OPTIONS];
    run.steps++;
    // Two that wait for a third one must not hand over to each other for ever.
    int count = threads[run.current].yielded ? find_others(options, false) : 0;
    if (count == 0)
        count = find_others(options, true);
    if (count == 0 && threads[run.current].life == EXPLORE_READY)
        return;
    if (count > 0)
        transfer(choose(options, count));
    else if (explore_pass_time())
        go_on_elsewhere();
    else
        finish();
}

static void die(void)
{
    uint32_t process = threads[run.current].process;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].process == process && threads[i].life != EXPLORE_ENDED) {
            explore_drain_dead(i);
            threads[i].life = EXPLORE_DEAD;
        }
    run.died = process;
    run.deaths++;
    run.spent++;
    explore_tell_death();
    go_on_elsewhere();
}

// Whether to let another one go on can make a difference here. Before a word that only the node
// process's thread uses as well it cannot, if nobody can die any more in this schedule, or only the
// current thread's process: that might as well go on up to the next word first.
static bool is_worth_a_switch(memory_use use)
{
    if (run.spent >= bound)
        return false;
    return use == MEMORY_SHARED || run.deaths > 0 ||
           (run.spent + 1 < bound && !threads[run.current].only_mortal);
}

// Before a step of the current thread that others can tell from another order.
static void decide(memory_use use)
{
    uint8_t options[OPTIONS] = {(uint8_t)run.current};
    int count = 1;
    for (int i = 0; i < thread_count && is_worth_a_switch(use); i++)
        if (threads[i].life == EXPLORE_READY && i != run.current)
            options[count++] = (uint8_t)i;
    if (threads[run.current].mortal && run.deaths == 0 && run.spent < bound)
        options[count++] = EXPLORE_DIES;
    int option = choose(options, count);
    if (option == EXPLORE_DIES) {
        die();
    } else if (option != run.current) {
        run.spent++;
        transfer(option);
    }
}

void explore_block(void)
{
    threads[run.current].life = EXPLORE_BLOCKED;
    go_on_elsewhere();
}

int explore_yield(void)
{
    explore_drain();
    if (!run.exploring)
        return 0;
    threads[run.current].yielded = true;
    go_on_elsewhere();
    threads[run.current].yielded = false;
    return 0;
}

// ---- points

static struct changing {
    volatile void *word;
    size_t size;
    uint64_t was;
} changing; // Told at the next step.

static uint64_t value_of(const volatile void *word, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, (const void *)(uintptr_t)word, size);
    return value;
}

static void tell_change(void)
{
    if (changing.word == NULL || run.current < 0)
        return;
    struct changing it = changing;
    changing.word = NULL;
    world->changed((const void *)(uintptr_t)it.word, it.size, it.was, value_of(it.word, it.size));
}

static void tell_step(const volatile void *word, size_t size, const char *where)
{
    const char *base = strrchr(where, '/');
    print_message("%6ld %c %-24s %llx\n", run.steps, explore_letter(run.current),
                  base != NULL ? base + 1 : where, (unsigned long long)value_of(word, size));
}

void explore_reach(const volatile void *word, size_t size, const char *where)
{
    tell_change();
    if (!run.exploring)
        return;
    if (++run.steps > STEPS_MAX)
        explore_fail("it does not end");
    memory_use use = memory_note(run.current, word, size, false);
    if (use == MEMORY_OWN && !schedule_is_told())
        return;
    decide(schedule_is_told() ? MEMORY_SHARED : use);
    if (told && use != MEMORY_OWN)
        tell_step(word, size, where);
}

void explore_write(volatile void *word, size_t size)
{
    if (run.current < 0)
        return;
    memory_keep(word, size);
    if (run.exploring)
        (void)memory_note(run.current, word, size, true);
    if (run.exploring)
        explore_wake_awaiting(word);
    changing = (struct changing){word, size, value_of(word, size)};
}

void explore_point(void)
{
    tell_change();
    if (!run.exploring)
        return;
    run.steps++;
    decide(MEMORY_SHARED);
}

// ---- a schedule

static int made_thread;

static void run_thread(void)
{
    if (_setjmp(threads[made_thread].start) == 0)
        _longjmp(home, 1);
    threads[run.current].run();
    explore_drain();
    tell_change();
    threads[run.current].life = EXPLORE_ENDED;
    if (run.current == EXPLORE_CHECK)
        finish();
    go_on_elsewhere();
}

static void make_thread(int index, uint32_t process, void (*body)(void))
{
    explore_inner_thread *it = &threads[index];
    it->process = process;
    it->run = body;
    (void)process_of(process);
    if (it->stack != NULL)
        return;
    it->state = memory_new_state(true);
    it->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ucontext_t context;
    if (it->stack == MAP_FAILED || getcontext(&context) != 0)
        abort();
    context.uc_stack.ss_sp = it->stack;
    context.uc_stack.ss_size = STACK;
    made_thread = index;
    makecontext(&context, run_thread, 0);
    if (_setjmp(home) == 0)
        (void)setcontext(&context);
}

static char *thread_initial;

static void begin_thread(int index)
{
    threads[index].life = EXPLORE_ENDED;
    if (threads[index].run == NULL)
        return;
    memory_copy(threads[index].state, thread_initial, true);
    memcpy(threads[index].at, threads[index].start, sizeof threads[index].at);
    threads[index].life = EXPLORE_READY;
    threads[index].yielded = false;
}

static void run_threads(void)
{
    uint8_t options[OPTIONS];
    int count = 0;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].life == EXPLORE_READY)
            options[count++] = (uint8_t)i;
    run.exploring = true;
    run.current = 0; // Nobody, before one is chosen.
    run.steps = 1;
    int first = choose(options, count);
    if (_setjmp(home) == 0)
        enter(first);
    run.exploring = false;
}

static void run_check(void)
{
    explore_expect_all_ended();
    begin_thread(EXPLORE_CHECK);
    if (_setjmp(home) == 0)
        enter(EXPLORE_CHECK);
}

static void run_schedule(void)
{
    run = (explore_run){.current = -1, .died = UINT32_MAX};
    changing.word = NULL;
    path_at = 0;
    schedule_begin();
    world->begin();
    for (int i = 0; i < process_count; i++)
        memory_copy(processes[i].state, processes[i].initial, false);
    explore_begin_waits();
    explore_begin_delays();
    for (int i = 0; i < thread_count; i++)
        begin_thread(i);
    explore_begin_node();
    run_threads();
    if (!run.failed) {
        if (_setjmp(home) == 0)
            run_check();
    }
    run.current = -1;
    run.exploring = false;
    memory_undo();
}

// ---- a scene

// Makes the last decision that can be made otherwise so. False: there is none.
static bool turn_back(void)
{
    while (path_length > 0 && path[path_length - 1].chosen + 1 == path[path_length - 1].count)
        path_length--;
    if (path_length == 0)
        return false;
    path[path_length - 1].chosen++;
    return true;
}

static void tear_down(void)
{
    memory_end();
    world->end();
    for (int i = 0; i < process_count; i++) {
        free(processes[i].state);
        free(processes[i].initial);
    }
}

static void report(void)
{
    print_message("  %s: %s\n", scene->name, run.failure);
    schedule_print(scene->name);
    if (how->finds) {
        print_message("found\n");
        exit(0);
    }
    tear_down();
    fail_msg("%s: %s", scene->name, run.failure);
}

// Every schedule with that many preemptions. Returns how many; -1: there are more points than were
// known.
static long search(void)
{
    long known = memory_contended(), schedules = 0;
    path_length = 0;
    do {
        run_schedule();
        schedules++;
        if (run.failed)
            report();
        if (memory_contended() > known)
            return -1;
    } while (turn_back());
    return schedules;
}

// Runs it once to learn which words matter, and once to tell.
static void replay(const char *schedule)
{
    schedule_tell(schedule);
    bound = INT32_MAX;
    run_schedule();
    told = true;
    run_schedule();
    told = false;
    schedule_tell(NULL);
    if (run.failed)
        report();
    print_message("%s: this schedule is well\n", scene->name);
    tear_down();
}

static void stop_at_crash(int number)
{
    print_message("  %s: signal %d\n", scene->name, number);
    schedule_print(scene->name);
    if (how->finds)
        print_message("found\n");
    (void)fflush(NULL);
    _exit(how->finds ? 0 : 1);
}

static void watch_for_crashes(void)
{
    static char stack[64 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = stop_at_crash, .sa_flags = SA_ONSTACK};
    (void)sigaltstack(&other, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGBUS, &action, NULL);
    (void)sigaction(SIGABRT, &action, NULL);
}

static void set_up(void)
{
    static char *pristine;
    run = (explore_run){.current = -1};
    if (pristine == NULL) {
        pristine = memory_new_state(false);
        memory_save(pristine, false);
        thread_initial = memory_new_state(true);
        memory_save(thread_initial, true);
    }
    memory_load(pristine, false);
    memory_load(thread_initial, true);
    process_count = thread_count = 0;
    for (int i = 0; i < EXPLORE_INNER_THREADS; i++)
        threads[i].run = NULL;
    memset(world->board, 0, world->board_size);
    world->make();
    char *made = memory_new_state(false);
    memory_save(made, false);
    while (thread_count < EXPLORE_THREADS && scene->threads[thread_count].run != NULL) {
        const explore_thread *one = &scene->threads[thread_count];
        make_thread(thread_count, one->process, one->run);
        threads[thread_count].mortal = one->mortal;
        threads[thread_count++].daemon = one->daemon;
    }
    for (int i = 0; i < thread_count; i++) {
        threads[i].only_mortal = threads[i].mortal;
        for (int k = 0; k < thread_count; k++)
            if (threads[k].mortal && threads[k].process != threads[i].process)
                threads[i].only_mortal = false;
    }
    threads[EXPLORE_NODE].daemon = true;
    make_thread(EXPLORE_NODE, TRP_PROCESS_NODE, explore_run_node);
    thread_count = EXPLORE_NODE + 1;
    make_thread(EXPLORE_CHECK, world->self, scene->check);
    for (int i = 0; i < process_count; i++) {
        memory_load(made, false);
        world->enter(processes[i].number);
        memory_save(processes[i].initial, false);
    }
    free(made);
    memory_load(process_of(world->self)->initial, false);
    scene->set_up();
    memory_save(process_of(world->self)->initial, false);
    memory_share(&(explore_range){trp_segment.base, trp_segment.base + trp_segment.size},
                 trp_segment.read_only,
                 (explore_range){world->board, world->board + world->board_size});
}

void explore_play(const explore_world *its, const explore_scene *one,
                  const explore_options *options)
{
    world = its;
    scene = one;
    how = options;
    explore_bury = world->bury;
    explore_delaying = options->delayed;
    watch_for_crashes();
    set_up();
    if (options->schedule != NULL) {
        replay(options->schedule);
        return;
    }
    long last = 0;
    int64_t from_ms = support_now_ms();
    for (bound = 0; bound <= options->spends; bound++) {
        if (bound > 1 && bound == options->spends && last > options->most / GROWTH)
            break;
        do
            last = search();
        while (last < 0);
    }
    print_message("  %-46s %8ld schedules, up to %d, %3ld words, %lld ms\n", one->name, last,
                  bound - 1, memory_contended(), (long long)(support_now_ms() - from_ms));
    assert_true(last > 1);
    tear_down();
}
