// command_modify.c: `troupe modify`: changes a job of the train server.
#include <getopt.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <server/ask.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void use_modify(FILE *out)
{
    fprintf(
        out,
        "usage: troupe modify [--json] JOB NAME=VALUE...\n\n"
        "Changes a job of the train server. JOB is a number or a key. A name is one of these,\n"
        "or a member of the config that may change while it runs, from the next report on;\n"
        "config.NAME is always such a member. What the job refuses is said by `troupe jobs`.\n\n"
        "  priority=N           of a job that waits: higher first\n"
        "  ranks=N              how many ranks it has, or will have\n"
        "  pause=true|false     it gives back what it holds and waits, or goes on\n"
        "  key=                 of a job that has ended: its key is free for another one\n\n"
        "  --json               prints what came of each as a JSON array\n");
}

// Reads a whole number of an assignment.
static bool read_number(const char *name, const char *text, int *number)
{
    char *end;
    long value = strtol(text, &end, 10);
    *number = (int)value;
    if (end != text && *end == '\0' && value >= INT32_MIN && value <= INT32_MAX)
        return true;
    fprintf(stderr, "troupe modify: %s is \"%s\", expected a whole number\n", name, text);
    return false;
}

// A live value: JSON as it is, or a text.
static bool read_value(const char *text, trp_buffer *value)
{
    trp_json json;
    if (trp_json_parse(text, strlen(text), &json) == TROUPE_OK)
        trp_buffer_append(value, text, strlen(text));
    else
        trp_json_text(value, text);
    trp_buffer_append(value, "", 1);
    return !value->failed;
}

// An assignment, and what is said where it was taken.
typedef struct assignment {
    const char *given;
    char *name;
    trp_wire_wish what;
    trp_buffer value;
    char done[200];
} assignment;

__attribute__((format(printf, 3, 4))) static void set_done(assignment *it, int wish,
                                                           const char *format, ...)
{
    va_list list;
    it->what.wish = wish;
    va_start(list, format);
    (void)vsnprintf(it->done, sizeof it->done, format, list);
    va_end(list);
}

static bool read_pause(assignment *it, const char *text)
{
    bool yes = strcmp(text, "true") == 0;
    set_done(it, yes ? TRP_WISH_PAUSE : TRP_WISH_GO_ON, yes ? "is to pause" : "is to go on");
    if (yes || strcmp(text, "false") == 0)
        return true;
    fprintf(stderr, "troupe modify: pause is \"%s\", expected true or false\n", text);
    return false;
}

static bool read_key(assignment *it, const char *text)
{
    set_done(it, TRP_WISH_FORGET, "has given up its key");
    if (text[0] == '\0')
        return true;
    fprintf(stderr, "troupe modify: a job cannot get another key, only give up its own: key=\n");
    return false;
}

static bool read_assignment(const char *given, assignment *it)
{
    const char *equals = strchr(given, '='), *text = equals + 1;
    if (equals == NULL || equals == given) {
        fprintf(stderr, "troupe modify: \"%s\" is not NAME=VALUE\n", given);
        return false;
    }
    it->given = given;
    char *name = it->name = trp_strdup(given);
    bool fine = name != NULL;
    if (fine)
        name[equals - given] = '\0';
    if (fine && strcmp(name, "priority") == 0) {
        fine = read_number(name, text, &it->what.number);
        set_done(it, TRP_WISH_PRIORITY, "has priority %d", it->what.number);
    } else if (fine && strcmp(name, "ranks") == 0) {
        fine = read_number(name, text, &it->what.number);
        set_done(it, TRP_WISH_RANKS, "is to have %d rank%s", it->what.number,
                 it->what.number == 1 ? "" : "s");
    } else if (fine && strcmp(name, "pause") == 0) {
        fine = read_pause(it, text);
    } else if (fine && strcmp(name, "key") == 0) {
        fine = read_key(it, text);
    } else if (fine) {
        bool marked = strncmp(name, "config.", 7) == 0;
        set_done(it, TRP_WISH_LIVE, "is told, for its next report: %.120s", given);
        fine = read_value(text, &it->value);
        it->what.value = (const char *)it->value.data;
        it->what.member = name + (marked ? 7 : 0);
    }
    return fine;
}

static int wish_all(const char *job, assignment *all, int count, bool json)
{
    trp_asker asker;
    bool runs;
    trp_wish_list list = {.json = json};
    int result = trp_asker_open(&asker, "troupe modify", true, &runs);
    bool asked = result == PROGRAM_DONE;
    for (int i = 0; asked && i < count; i++) { // Each, also where one is refused.
        all[i].what.of = trp_job_named(job);
        if (!trp_asker_wish(&asker, &all[i].what, all[i].given, all[i].done, &list))
            result = PROGRAM_FAILED;
    }
    if (asked)
        trp_wish_list_end(&list);
    trp_asker_close(&asker);
    return result;
}

int program_modify(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false;
    for (int option; (option = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
        if (option == 'h') {
            use_modify(stdout);
            return PROGRAM_DONE;
        }
        if (option == '?')
            return program_misused("troupe modify", use_modify, NULL);
        json = true;
    }
    int count = argc - optind - 1, result = PROGRAM_DONE;
    if (count < 1)
        return program_misused("troupe modify", use_modify, "expected a job and NAME=VALUE");
    assignment *all = (assignment *)trp_alloc((size_t)count * sizeof *all);
    if (all != NULL)
        memset(all, 0, (size_t)count * sizeof *all);
    else
        result = PROGRAM_FAILED;
    for (int i = 0; result == PROGRAM_DONE && i < count; i++) // All, before any is wished.
        if (!read_assignment(argv[optind + 1 + i], &all[i]))
            result = PROGRAM_MISUSED;
    if (result == PROGRAM_DONE)
        result = wish_all(argv[optind], all, count, json);
    for (int i = 0; all != NULL && i < count; i++) {
        trp_buffer_free(&all[i].value);
        trp_free(all[i].name);
    }
    trp_free(all);
    return result;
}
