// commits.c: a short list, by number.
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/type.h>
#include <string.h>
#include <train/commits.h>

static trp_commit *find(trp_commits *commits, int number)
{
    trp_commit **at = &commits->first;
    while (*at && (*at)->number < number)
        at = &(*at)->next;
    if (*at && (*at)->number == number)
        return *at;
    trp_commit *made = (trp_commit *)trp_alloc(sizeof(*made));
    if (!made) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for the checkpoint of report %d", number);
        return NULL;
    }
    made->number = number;
    made->why = "";
    made->next = *at;
    *at = made;
    return made;
}

// NULL: no memory.
static const char *keep_text(trp_commit *commit, const trp_buffer *text)
{
    char *copy = text->failed ? NULL : (char *)trp_arena_alloc(&commit->arena, text->size + 1);
    if (copy)
        memcpy(copy, text->data, text->size);
    return copy;
}

troupe_status trp_commits_whole(trp_commits *commits, const trp_open_report *report,
                                const trp_buffer *config)
{
    if (report->pending == 0)
        return TROUPE_OK;
    trp_commit *commit = find(commits, report->number);
    if (!commit)
        return TROUPE_NO_MEMORY;
    const troupe_array_trp_metric metrics = {report->metrics, report->metric_count};
    TROUPE_TRY(trp_value_copy(&troupe_type_troupe_array_trp_metric, &metrics, &commit->arena,
                              &commit->metrics));
    bool changed = config->size > 0 || config->failed;
    if (changed && !(commit->config = keep_text(commit, config)))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the config of report %d",
                           report->number);
    commit->expected = report->pending;
    commit->whole = true;
    return TROUPE_OK;
}

// Adds a rank's files to those of the others.
static troupe_status take_files(trp_commit *commit, const trp_written *written)
{
    troupe_array_trp_manifest_file copy;
    TROUPE_TRY(trp_value_copy(&troupe_type_troupe_array_trp_manifest_file, &written->files,
                              &commit->arena, &copy));
    size_t count = commit->file_count + copy.count;
    trp_manifest_file *all =
        (trp_manifest_file *)trp_arena_alloc(&commit->arena, (count + 1) * sizeof(*all));
    if (!all)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the files of report %d",
                           written->number);
    if (commit->file_count > 0)
        memcpy(all, commit->files, commit->file_count * sizeof(*all));
    for (size_t i = 0; i < copy.count; i++) {
        all[commit->file_count + i] = copy.items[i];
        all[commit->file_count + i].rank = written->rank;
    }
    commit->files = all;
    commit->file_count = count;
    return TROUPE_OK;
}

troupe_status trp_commits_written(trp_commits *commits, const trp_written *written)
{
    trp_commit *commit = find(commits, written->number);
    if (!commit)
        return TROUPE_NO_MEMORY;
    commit->arrived++;
    if (!written->torn && take_files(commit, written) == TROUPE_OK)
        return TROUPE_OK;
    const char *why = written->torn && written->why ? written->why : troupe_last_error()->text;
    char *copy = (char *)trp_arena_alloc(&commit->arena, strlen(why) + 1);
    if (!commit->torn)
        commit->why = copy ? strcpy(copy, why) : "";
    commit->torn = true;
    return TROUPE_OK;
}

trp_commit *trp_commits_next(trp_commits *commits)
{
    trp_commit *first = commits->first;
    if (!first || !first->whole || first->arrived < first->expected)
        return NULL;
    commits->first = first->next;
    first->next = NULL;
    return first;
}

int trp_commits_lacking(const trp_commits *commits)
{
    int highest = 0; // They are in order.
    for (const trp_commit *it = commits->first; it; it = it->next)
        if (it->whole && it->arrived < it->expected)
            highest = it->number;
    return highest;
}

void trp_commit_free(trp_commit *commit)
{
    trp_arena_clear(&commit->arena);
    trp_free(commit);
}

void trp_commits_clear(trp_commits *commits)
{
    while (commits->first) {
        trp_commit *first = commits->first;
        commits->first = first->next;
        trp_commit_free(first);
    }
}
