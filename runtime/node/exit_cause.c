// exit_cause.c: why a worker process has ended (see node/exit_cause.h).
#include <runtime/node/exit_cause.h>

#include <runtime/base/log.h>
#include <runtime/node/postmortem.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static uint64_t memory_kills; // Of the cgroup, as last seen.

void trp_cause_start(void)
{
    memory_kills = trp_postmortem_memory_kills("");
}

static void note_end(trp_process_row *row, const char *kill_cause, int status, bool memory)
{
    row->end = kill_cause[0] != '\0' ? TRP_END_KILLED
               : memory              ? TRP_END_MEMORY
               : WIFSIGNALED(status) ? TRP_END_SIGNALLED
                                     : TRP_END_EXITED;
    row->end_number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

// Says at the driver what a crash was, as far as it can be known: the cause has little room. True:
// it was the memory limit.
static bool describe_signal(int status, uint32_t slot, char *cause, size_t size)
{
    char core[512], name[16];
    const trp_process_row *row = trp_segment_process(slot);
    snprintf(name, sizeof name, "troupe-%u", slot);
    trp_postmortem_core("", row->pid, name, status, core, sizeof core);
    uint64_t kills = WTERMSIG(status) == SIGKILL ? trp_postmortem_memory_kills("") : 0;
    bool memory = kills > memory_kills;
    const char *label = trp_row_label(row);
    if (memory)
        snprintf(cause, size, "was killed by the memory limit of its cgroup");
    else
        snprintf(cause, size, "was killed by signal %d (%s)%s%.*s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), core[0] != '\0' ? "; " : "", (int)size / 2, core);
    if (memory)
        memory_kills++; // One kill each: others may be dead already and not told of yet.
    trp_log(TRP_WARN, "process %u (%s, pid %d) was killed by signal %d (%s)%s%s%s", slot,
            label != NULL ? label : "worker", row->pid, WTERMSIG(status),
            strsignal(WTERMSIG(status)), core[0] != '\0' ? "; " : "", core,
            memory ? " by the memory limit of its cgroup" : "");
    return memory;
}

// True: the memory limit ended it.
static bool describe_end(int status, uint32_t slot, const char *kill_cause, char *cause,
                         size_t size)
{
    const trp_process_row *row = trp_segment_process(slot);
    if (kill_cause[0] != '\0')
        snprintf(cause, size, "%s", kill_cause);
    else if (WIFEXITED(status) && row->last_reason != 0)
        snprintf(cause, size, "ended with its actor: %.80s", row->last_words);
    else if (WIFSIGNALED(status))
        return describe_signal(status, slot, cause, size);
    else
        snprintf(cause, size, "exited with status %d", WEXITSTATUS(status));
    return false;
}

void trp_cause_note(uint32_t slot, int status, const char *kill_cause, char *cause, size_t size)
{
    bool memory = describe_end(status, slot, kill_cause, cause, size);
    note_end(trp_segment_process(slot), kill_cause, status, memory);
}
