// schedule.c: a schedule as a text: "17b,40x" (see test_interleave.c). Only what is not the usual
// choice is in it, with the step at which it was made, which does not depend on what was explored
// before.
#include <support.h>

#include <interleave/inner.h>
#include <stdlib.h>

enum { CHOICES_MAX = 64 };

typedef struct choice {
    long step;
    uint8_t option;
} choice;

static choice chosen[CHOICES_MAX];
static int chosen_count;
static choice told[CHOICES_MAX]; // Of the schedule that is to be run.
static int told_count, told_at;
static bool is_told;

void schedule_begin(void)
{
    chosen_count = told_at = 0;
}

int schedule_note(int option, bool usual)
{
    if (!usual && chosen_count < CHOICES_MAX)
        chosen[chosen_count++] = (choice){run.steps, (uint8_t)option};
    return option;
}

void schedule_print(const char *scene)
{
    print_message("    test_interleave \"%s\" %s", scene, chosen_count == 0 ? "-" : "");
    for (int i = 0; i < chosen_count; i++)
        print_message("%s%ld%c", i > 0 ? "," : "", chosen[i].step,
                      chosen[i].option == EXPLORE_DIES ? 'x' : explore_letter(chosen[i].option));
    print_message("\n");
}

void schedule_tell(const char *text)
{
    is_told = text != NULL;
    told_count = 0;
    while (is_told && *text != '\0' && told_count < CHOICES_MAX) {
        char *end;
        long step = strtol(text, &end, 10);
        if (end != text)
            told[told_count++] = (choice){step, *end == 'x'   ? EXPLORE_DIES
                                                : *end == 'n' ? EXPLORE_NODE
                                                              : (uint8_t)(*end - 'a')};
        text = *end != '\0' ? end + 1 : end;
        text += *text == ',';
    }
}

bool schedule_is_told(void)
{
    return is_told;
}

int schedule_choose(const uint8_t *options, int count)
{
    while (told_at < told_count && told[told_at].step < run.steps)
        told_at++;
    if (told_at < told_count && told[told_at].step == run.steps)
        for (int i = 0; i < count; i++)
            if (options[i] == told[told_at].option) {
                told_at++;
                return schedule_note(options[i], i == 0);
            }
    return options[0];
}
