// server_acts.c: what the server does for its jobs: starts, watches and ends processes, and tells
// those who watch.
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <server/fence.h>
#include <server/launcher.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

trp_job_link *trp_server_link(trp_entry *job)
{
    if (job->user == NULL)
        job->user = trp_alloc(sizeof(trp_job_link));
    return (trp_job_link *)job->user;
}

// ---- processes

static troupe_status watch_process(trp_server *server, trp_entry *job, pid_t process, int pidfd,
                                   bool own)
{
    trp_job_link *link = trp_server_link(job);
    trp_process *it = (trp_process *)trp_alloc(sizeof *it);
    if (link == NULL || it == NULL) {
        trp_free(it);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to watch a process");
    }
    *it = (trp_process){{TRP_SOURCE_PROCESS, pidfd}, process, own, job, NULL};
    troupe_status status = trp_server_listen_to(server, &it->source, EPOLLIN);
    if (status != TROUPE_OK) {
        trp_free(it);
        return status;
    }
    if (link->process != NULL)
        link->process->job = NULL; // It is still waited for.
    link->process = it;
    return TROUPE_OK;
}

static troupe_status launch(void *user, trp_entry *job, const trp_wire_launch *how,
                            const trp_wire_order *order, pid_t *process)
{
    trp_server *server = (trp_server *)user;
    trp_wire_order own = *order;
    int pidfd;
    if (trp_server_launch_warm(server, job, how, &own, process))
        return TROUPE_OK;
    TROUPE_TRY((server->how->launch != NULL ? server->how->launch : trp_launcher_start)(
        how, &own, job->folder, process, &pidfd));
    troupe_status status = watch_process(server, job, *process, pidfd, true);
    if (status == TROUPE_OK)
        return TROUPE_OK;
    // Nobody would learn of its end.
    (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    (void)waitpid(*process, NULL, 0);
    close(pidfd);
    return status;
}

// Of the holder of the lock: it is asked for again, since that may have ended, and another process
// have its number.
static bool watch(void *user, trp_entry *job, pid_t process)
{
    trp_fence found;
    TRP_FAULT("before watch");
    int pidfd = pidfd_open(process, 0);
    if (pidfd < 0)
        return false;
    if (trp_fence_look(job->folder, &found) == TROUPE_OK && found.runner == process &&
        watch_process((trp_server *)user, job, process, pidfd, false) == TROUPE_OK)
        return true;
    close(pidfd);
    return false;
}

// Ends the holder of a lock: between two looks at who that is a pidfd is opened, so that a number
// which another process has by now is not meant.
static void end_holder(trp_entry *job, bool keeper)
{
    trp_fence found, again;
    if (trp_fence_look(job->folder, &found) != TROUPE_OK)
        return;
    pid_t process = keeper ? found.keeper : found.runner;
    int pidfd = process > 0 ? pidfd_open(process, 0) : -1;
    if (pidfd < 0)
        return;
    if (trp_fence_look(job->folder, &again) == TROUPE_OK &&
        process == (keeper ? again.keeper : again.runner)) {
        trp_say("job %" PRId64 ": process %d is ended", job->row.id, (int)process);
        (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    }
    close(pidfd);
}

static void end_process(void *user, trp_entry *job, bool keeper)
{
    const trp_job_link *link = (const trp_job_link *)job->user;
    (void)user;
    if (!keeper && link != NULL && link->process != NULL && link->process->source.fd >= 0) {
        trp_say("job %" PRId64 ": process %d is ended", job->row.id, (int)link->process->process);
        (void)pidfd_send_signal(link->process->source.fd, SIGKILL, NULL, 0);
    } else {
        end_holder(job, keeper);
    }
}

void trp_server_process_ready(trp_server *server, trp_process *process)
{
    int status = -1;
    if (process->own && waitpid(process->process, &status, WNOHANG) == 0)
        return;
    if (process->job != NULL && !trp_server_warm_tells(server, process->job)) {
        ((trp_job_link *)process->job->user)->process = NULL;
        trp_jobs_exited(server->jobs, process->job, status);
    }
    (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, process->source.fd, NULL);
    close(process->source.fd);
    process->source.fd = -1;
    process->next_dead = server->dead_processes;
    server->dead_processes = process;
}

void trp_server_free_dead_processes(trp_server *server)
{
    while (server->dead_processes != NULL) {
        trp_process *it = server->dead_processes;
        server->dead_processes = it->next_dead;
        trp_free(it);
    }
}

// ---- telling

static void tell_job(trp_server *server, trp_client *client, trp_entry *job)
{
    trp_arena arena = {0};
    trp_wire_job shown;
    if (trp_jobs_show(server->jobs, job, &arena, &shown) == TROUPE_OK)
        trp_client_put(server, client, TRP_WIRE_JOB, 0, &troupe_type_trp_wire_job, &shown);
    trp_arena_clear(&arena);
}

void trp_server_tell_watches(trp_server *server, trp_client *client)
{
    for (trp_watch *at = client->watches; at != NULL; at = at->of_client) {
        if (client->dead || client->out.size - client->sent > TRP_TOLD_ENOUGH)
            return;
        if (at->changed)
            tell_job(server, client, at->job);
        at->changed = false;
    }
}

static void tell_runner(trp_server *server, trp_client *runner, trp_entry *job)
{
    trp_arena arena = {0};
    trp_wire_wishes wishes;
    bool leaves = job->row.state != TRP_JOB_STARTING;
    if (!leaves && runner->told >= job->row.revision)
        return;
    if (trp_jobs_wishes(job, &arena, &wishes) == TROUPE_OK) {
        trp_client_put(server, runner, TRP_WIRE_WISHES, 0, &troupe_type_trp_wire_wishes, &wishes);
        runner->told = job->row.revision;
    }
    trp_arena_clear(&arena);
}

static void changed(void *user, trp_entry *job)
{
    trp_server *server = (trp_server *)user;
    trp_job_link *link = (trp_job_link *)job->user;
    trp_server_track_changed(server, job->row.state);
    if (link == NULL)
        return;
    if (link->runner != NULL)
        tell_runner(server, link->runner, job);
    for (trp_watch *at = link->watches; at != NULL; at = at->of_job) {
        at->changed = true;
        trp_server_tell_watches(server, at->client);
    }
}

static void take_watch_out(trp_watch **list, trp_watch *watch, bool of_job)
{
    while (*list != watch)
        list = of_job ? &(*list)->of_job : &(*list)->of_client;
    *list = of_job ? watch->of_job : watch->of_client;
}

static void removed(void *user, trp_entry *job)
{
    trp_job_link *link = (trp_job_link *)job->user;
    (void)user;
    if (link == NULL)
        return;
    while (link->watches != NULL) {
        trp_watch *watch = link->watches;
        link->watches = watch->of_job;
        take_watch_out(&watch->client->watches, watch, false);
        trp_free(watch);
    }
    if (link->runner != NULL)
        link->runner->runs = NULL;
    if (link->process != NULL)
        link->process->job = NULL;
    trp_free(link);
    job->user = NULL;
}

void trp_server_forget_client(trp_server *server, trp_client *client)
{
    while (client->watches != NULL) {
        trp_watch *watch = client->watches;
        client->watches = watch->of_client;
        take_watch_out(&((trp_job_link *)watch->job->user)->watches, watch, true);
        trp_free(watch);
    }
    if (client->warm != NULL)
        trp_server_forget_warm(server, client);
    if (client->runs != NULL) {
        ((trp_job_link *)client->runs->user)->runner = NULL;
        trp_jobs_lost_touch(server->jobs, client->runs);
        client->runs = NULL;
    }
}

trp_jobs_acts trp_server_acts(trp_server *server)
{
    return (trp_jobs_acts){.launch = launch,
                           .watch = watch,
                           .kill = end_process,
                           .changed = changed,
                           .removed = removed,
                           .user = server};
}
