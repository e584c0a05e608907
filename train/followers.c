// followers.c: see followers.h.
#include <fcntl.h>
#include <runtime/host/file.h>
#include <train/followers.h>
#include <train/handle.h>
#include <unistd.h>

// Takes note of where something lies.
static void note(trp_followers *all, trp_lines lines)
{
    all->lost |= lines.start == lines.end;
    if (lines.end > all->told)
        all->told = lines.end;
}

void trp_followers_accepted(trp_followers *all, const trp_accepted *what)
{
    trp_path path;
    all->begun = all->told = what->journal;
    if (!(all->first || all->may_come) ||
        trp_path_make(&path, "%s/journal.jsonl", what->folder) != TROUPE_OK)
        return;
    int journal = open(path.text, O_RDONLY | O_CLOEXEC);
    trp_follow_journal(all->first, journal);
    if (all->may_come && journal > 0)
        all->journal = journal;
    else if (journal >= 0)
        close(journal);
}

void trp_followers_state(trp_followers *all, troupe_job_state state, trp_lines lines)
{
    note(all, lines);
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_state(at, state, lines.start, lines.end);
}

void trp_followers_report(trp_followers *all, const troupe_report_event *event, trp_lines lines)
{
    note(all, lines);
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_report(at, event, lines.start, lines.end);
}

void trp_followers_checkpoint(trp_followers *all, const troupe_checkpoint_event *event,
                              trp_lines lines)
{
    note(all, lines);
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_checkpoint(at, event, lines.start, lines.end);
}

void trp_followers_modified(trp_followers *all, const troupe_live_event *event, trp_lines lines)
{
    note(all, lines);
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_modified(at, event, lines.start, lines.end);
}

void trp_followers_end(trp_followers *all)
{
    all->ended = true;
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_end(at);
}

// ---- lines of ranks, for jobs with a key

static void hold(void *user)
{
    trp_handle_hold((troupe_job *)user);
}

static void release(void *user)
{
    trp_handle_release((troupe_job *)user);
}

static void begin(void *user)
{
    troupe_job *job = (troupe_job *)user;
    trp_followers *all = &job->followers;
    pthread_mutex_lock(&job->lock);
    all->logs_open++;
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        if (trp_follow_has_log(at))
            trp_follow_log_begin(at);
    pthread_mutex_unlock(&job->lock);
}

static void take(void *user, const trp_log_piece *piece)
{
    troupe_job *job = (troupe_job *)user;
    trp_followers *all = &job->followers;
    pthread_mutex_lock(&job->lock);
    all->lost |= !trp_log_queue_add(&all->logs, piece);
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        if (trp_follow_has_log(at))
            trp_follow_log(at, piece);
    pthread_mutex_unlock(&job->lock);
}

static void end(void *user)
{
    troupe_job *job = (troupe_job *)user;
    trp_followers *all = &job->followers;
    pthread_mutex_lock(&job->lock);
    all->logs_open--;
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        if (trp_follow_has_log(at))
            trp_follow_log_end(at);
    pthread_mutex_unlock(&job->lock);
}

trp_log_sink trp_followers_sink(troupe_job *job)
{
    static const trp_log_sink_class shared = {hold, release, begin, take, end};
    if (job->followers.may_come)
        return (trp_log_sink){&shared, job};
    return trp_follow_sink(job->followers.first);
}

// ---- their lives

troupe_status trp_followers_add(troupe_job *job, const troupe_follower *follower)
{
    trp_follow *made;
    trp_followers *all = &job->followers;
    TROUPE_TRY(trp_follow_start(job, follower, &made));
    if (!made)
        return TROUPE_OK;
    pthread_mutex_lock(&job->lock);
    trp_follow_journal(made, all->journal > 0 ? all->journal : -1);
    trp_follow_catch_up(made, all->begun, all->told, all->lost);
    for (int i = 0; trp_follow_has_log(made) && i < all->logs_open; i++)
        trp_follow_log_begin(made);
    for (const trp_log_piece *at = all->logs.first; trp_follow_has_log(made) && at; at = at->next)
        trp_follow_log(made, at);
    if (all->ended)
        trp_follow_end(made);
    trp_follow_chain(made, all->first);
    all->first = made;
    pthread_mutex_unlock(&job->lock);
    return TROUPE_OK;
}

bool trp_followers_is_caller(const trp_followers *all)
{
    bool own = false;
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        own |= trp_follow_is_caller(at);
    return own;
}

void trp_followers_abandon(trp_followers *all)
{
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_abandon(at);
}

void trp_followers_await(const trp_followers *all)
{
    for (trp_follow *at = all->first; at; at = trp_follow_next(at))
        trp_follow_await(at);
}

void trp_followers_free(trp_followers *all)
{
    for (trp_follow *at = all->first, *next; at; at = next) {
        next = trp_follow_next(at);
        trp_follow_release(at);
    }
    trp_log_queue_clear(&all->logs);
    if (all->journal > 0)
        close(all->journal);
}
