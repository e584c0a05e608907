// spaces.c: a study whose space has become larger. All that an earlier life has put down is
// repeated in the space that the study has now: points of earlier spaces lie in it
// (tune/space/extend.h). Searcher and scheduler are begun with its dimensions and told of all
// trials, and draw from it from then on; what was drawn before is read, so that it does not hang on
// which space that was.
#include <tune/study/lines.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <string.h>

enum { COMBINATIONS_MAX = 1 << 16 };

// What the lines have: descriptions in their order, and with each what was before.
typedef struct found {
    trp_json *spaces, *before;
    size_t count, room;
} found;

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the space of a study");
}

static troupe_status add(found *all, trp_json space, trp_json before)
{
    if (all->count == all->room) {
        size_t room = 2 * all->room + 8;
        trp_json *more = trp_realloc(all->spaces, 2 * room * sizeof *more);
        if (more == NULL)
            return no_memory();
        memmove(more + room, more + all->room, all->count * sizeof *more);
        all->spaces = more;
        all->before = more + room;
        all->room = room;
    }
    all->spaces[all->count] = space;
    all->before[all->count++] = before;
    return TROUPE_OK;
}

static troupe_status find_lines(const troupe_study *study, const trp_study_past *past, size_t from,
                                found *all)
{
    for (size_t at = from; at < past->size;) {
        const char *text = past->lines + at;
        const char *end = memchr(text, '\n', past->size - at);
        size_t size = end != NULL ? (size_t)(end - text) : past->size - at;
        at += size + 1;
        if (trp_line_kind_of(text, size) != TRP_LINE_SPACE)
            continue;
        trp_json line, space, before;
        if (trp_json_parse(text, size, &line) != TROUPE_OK ||
            !trp_json_member(line, "space", &space) || !trp_json_member(line, "before", &before))
            return troupe_fail(TROUPE_CORRUPT, "%s: a line with another space is damaged",
                               trp_study_name(study));
        TROUPE_TRY(add(all, space, before));
    }
    return TROUPE_OK;
}

// Whether the description is that of the study's space.
static troupe_status is_same(const troupe_study *study, trp_json was, bool *same)
{
    trp_buffer now = {0};
    trp_space_describe(study->space, &now);
    bool failed = now.failed;
    *same = !failed && now.size == was.size && memcmp(now.data, was.at, now.size) == 0;
    trp_buffer_free(&now);
    if (failed)
        return no_memory();
    *same = *same || trp_space_check_same(study->space, was) == TROUPE_OK;
    return TROUPE_OK;
}

static troupe_status check_searcher(const troupe_study *study)
{
    if (study->searcher->covers_grids)
        return troupe_fail(TROUPE_EXISTS,
                           "the space was another, of which the searcher %.200s numbers its "
                           "points: expected the same space",
                           study->searcher->name);
    if (study->combinations > COMBINATIONS_MAX)
        return troupe_fail(TROUPE_EXISTS,
                           "the space was another, and has %d combinations of grids: expected at "
                           "most %d, or the same space",
                           study->combinations, (int)COMBINATIONS_MAX);
    return TROUPE_OK;
}

static troupe_status open_all(troupe_study *study, const found *all, size_t count)
{
    TROUPE_TRY(check_searcher(study));
    study->earlier = trp_alloc(count * sizeof *study->earlier);
    if (study->earlier == NULL)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        TROUPE_TRY(trp_extension_open(study->space, all->spaces[i], all->before + i + 1,
                                      all->count - i - 1, &study->earlier[i]));
        study->earlier_count++;
    }
    return TROUPE_OK;
}

// The last of all is the record's: *all has the study's own behind it, if that is another one.
static troupe_status take_all(troupe_study *study, found *all, trp_buffer *before)
{
    bool same;
    trp_json value;
    TROUPE_TRY(is_same(study, all->spaces[all->count - 1], &same));
    study->enlarges = !same;
    if (same)
        return all->count > 1 ? open_all(study, all, all->count - 1) : TROUPE_OK;
    trp_extension_before(study->space, all->spaces[all->count - 1], before);
    if (before->failed)
        return no_memory();
    TROUPE_TRY(trp_json_parse((const char *)before->data, before->size, &value));
    TROUPE_TRY(add(all, (trp_json){0}, value));
    return open_all(study, all, all->count - 1);
}

troupe_status trp_study_find_spaces(troupe_study *study, const trp_study_past *past, size_t from,
                                    trp_json first)
{
    found all = {0};
    trp_buffer before = {0};
    troupe_status status = add(&all, first, (trp_json){0});
    if (status == TROUPE_OK)
        status = find_lines(study, past, from, &all);
    if (status == TROUPE_OK)
        status = take_all(study, &all, &before);
    if (study->enlarges && status == TROUPE_OK) {
        study->before = before;
        before = (trp_buffer){0};
    }
    trp_buffer_free(&before);
    trp_free(all.spaces);
    if (status == TROUPE_EXISTS)
        return trp_error_prefix("%s has another study", trp_study_name(study));
    return trp_error_settled(status);
}

static troupe_status count_grids(troupe_study *study)
{
    if (study->earlier_count == 0 || study->combinations < 2)
        return TROUPE_OK;
    study->had = trp_alloc((size_t)study->combinations * sizeof *study->had);
    if (study->had == NULL)
        return no_memory();
    for (int i = study->first_count; i < study->count; i++)
        study->had[trp_space_combination_of(study->space, trp_study_point(study, i))]++;
    return TROUPE_OK;
}

troupe_status trp_study_settle_space(troupe_study *study)
{
    TROUPE_TRY(count_grids(study));
    if (!study->enlarges || study->record == NULL)
        return TROUPE_OK;
    trp_line_space(study, (trp_json){(const char *)study->before.data, study->before.size},
                   &study->held);
    if (!trp_line_reserve(study, &study->held))
        return no_memory();
    study->enlarges = false;
    return TROUPE_OK;
}

void trp_study_free_spaces(troupe_study *study)
{
    for (size_t i = 0; i < study->earlier_count; i++)
        trp_extension_close(&study->earlier[i]);
    trp_free(study->earlier);
    trp_free(study->had);
    trp_buffer_free(&study->before);
    study->earlier = NULL;
    study->earlier_count = 0;
    study->had = NULL;
    study->enlarges = false;
}
