// decisions.h: what a sweep has decided, by the lines of its trials.jsonl: those of a sweep that
// was killed and went on are the same as those of one that was not.
#ifndef DECISIONS_H
#define DECISIONS_H

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DECISIONS_MAX = 400 };

// Takes a member out of a line: what it says depends on the moment, or on where the sweep is.
static inline void decisions_take_out(char *line, const char *member)
{
    char what[40];
    snprintf(what, sizeof what, ", \"%s\": ", member);
    char *at = strstr(line, what);
    if (at == NULL)
        return;
    char *end = at + strlen(what);
    if (*end == '"')
        end = strchr(end + 1, '"') + 1;
    else
        end += strcspn(end, ",}");
    memmove(at, end, strlen(end) + 1);
}

// The lines of a record that say what was decided, in their order; each is of `text`, which is
// changed. `exactly`: with the reports that a trial makes on its way to its end, which it lacks
// where a rank dies then, or what it has reported was lost.
static inline int decisions_of(char *text, bool exactly, char **lines)
{
    static const char *const moments[] = {"at_s",   "elapsed_s", "checkpoint",
                                          "folder", "reports",   "best"};
    static const char *const kept[] = {"suggest", "report", "end",     "again",
                                       "over",    "run",    "reported"};
    const size_t moment_count = exactly ? 4 : 6, kept_count = exactly ? 7 : 6;
    int count = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        for (size_t i = 0; i < kept_count; i++) {
            char what[40];
            snprintf(what, sizeof what, "{\"event\": \"%s\",", kept[i]);
            if (strncmp(line, what, strlen(what)) != 0)
                continue;
            assert_in_range(count, 0, DECISIONS_MAX - 1);
            for (size_t k = 0; k < moment_count; k++)
                decisions_take_out(line, moments[k]);
            lines[count++] = line;
        }
    }
    return count;
}

// Fails with both lines where a decision of `text` is another one than that of `undisturbed`.
static inline void decisions_assert_same(const char *undisturbed, const char *text, bool exactly,
                                         const char *where)
{
    char *expected[DECISIONS_MAX], *lines[DECISIONS_MAX];
    char *one = strdup(undisturbed), *other = strdup(text);
    int expected_count = decisions_of(one, exactly, expected),
        count = decisions_of(other, exactly, lines);
    for (int i = 0; i < count && i < expected_count; i++)
        if (strcmp(lines[i], expected[i]) != 0)
            fail_msg("%s: decision %d was\n%s\nand is\n%s\nin\n%s", where, i, expected[i], lines[i],
                     text);
    if (count != expected_count)
        fail_msg("%s: there are %d decisions, and not %d:\n%s", where, count, expected_count, text);
    free(one);
    free(other);
}

#endif
