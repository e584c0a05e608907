// executed.c: see executed.h.
//
// The program's threads are those that there were when one of them became the worker. Those that
// they begin later are known by their name, which is inherited: the worker has another one by then.
#include <runtime/node/executed.h>

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/memory.h>
#include <runtime/node/keeper.h>
#include <runtime/shm/process_table.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { THREAD_NAME_MAX = 16 };

static struct {
    pthread_mutex_t lock;
    bool taken; // A thread has become the worker. What follows is written before that alone.
    char name[THREAD_NAME_MAX]; // Its name until then.
    pid_t *others;              // The threads beside it at that time.
    size_t count;
    _Atomic bool known; // Which worker it is.
} executed = {.lock = PTHREAD_MUTEX_INITIALIZER};

// Without /proc or memory, names alone have to do.
static void note_others(void)
{
    DIR *tasks = opendir("/proc/self/task");
    (void)prctl(PR_GET_NAME, executed.name);
    if (tasks == NULL)
        return;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
        pid_t *grown =
            thread == 0 || thread == gettid()
                ? NULL
                : trp_realloc(executed.others, (executed.count + 1) * sizeof *executed.others);
        if (grown == NULL)
            continue;
        grown[executed.count++] = thread;
        executed.others = grown;
    }
    closedir(tasks);
}

static bool is_of_program(void)
{
    char name[THREAD_NAME_MAX] = "";
    pid_t me = gettid();
    for (size_t i = 0; i < executed.count; i++)
        if (executed.others[i] == me)
            return true;
    (void)prctl(PR_GET_NAME, name);
    return strcmp(name, executed.name) == 0;
}

bool trp_executed_enter(char *order, size_t capacity)
{
    enum { LOOK_MS = 1 };
    pthread_mutex_lock(&executed.lock);
    bool late = executed.taken;
    const char *value = late ? NULL : getenv(TRP_WORKER_VARIABLE);
    bool becomes = value != NULL && strtol(value, NULL, 10) == getpid();
    if (becomes) {
        note_others();
        executed.taken = true;
        snprintf(order, capacity, "%s", value);
        (void)unsetenv(TRP_WORKER_VARIABLE); // What the user's code executes is no worker.
    }
    pthread_mutex_unlock(&executed.lock);
    while (late && !trp_self.forked && is_of_program())
        (void)pause();
    while (late && !trp_self.forked && !atomic_load(&executed.known))
        (void)poll(NULL, 0, LOOK_MS);
    return becomes;
}

void trp_executed_known(void)
{
    atomic_store(&executed.known, true);
}
