// command_modify.c: `troupe modify`: changes a job of the train server.
#include <runtime/codec/json.h>
#include <server/ask.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void use_modify(FILE *out)
{
    fprintf(out,
            "usage: troupe modify JOB NAME=VALUE...\n\n"
            "Changes a job of the train server. JOB is a number or a key. A name is one of these,\n"
            "or a member of the config that may change while it runs, from the next report on;\n"
            "config.NAME is always such a member.\n\n"
            "  priority=N           of a job that waits: higher first\n"
            "  ranks=N              how many ranks it has, or will have\n"
            "  pause=true|false     it gives back what it holds and waits, or goes on\n"
            "  key=                 of a job that has ended: its key is free for another one\n");
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

static bool read_wish(char *given, trp_buffer *value, trp_wire_wish *what)
{
    char *equals = strchr(given, '=');
    if (equals == NULL || equals == given) {
        fprintf(stderr, "troupe modify: \"%s\" is not NAME=VALUE\n", given);
        return false;
    }
    *equals = '\0';
    const char *text = equals + 1;
    if (strcmp(given, "priority") == 0) {
        what->wish = TRP_WISH_PRIORITY;
        return read_number(given, text, &what->number);
    }
    if (strcmp(given, "ranks") == 0) {
        what->wish = TRP_WISH_RANKS;
        return read_number(given, text, &what->number);
    }
    if (strcmp(given, "pause") == 0) {
        bool yes = strcmp(text, "true") == 0;
        if (!yes && strcmp(text, "false") != 0)
            fprintf(stderr, "troupe modify: pause is \"%s\", expected true or false\n", text);
        what->wish = yes ? TRP_WISH_PAUSE : TRP_WISH_GO_ON;
        return yes || strcmp(text, "false") == 0;
    }
    if (strcmp(given, "key") == 0) {
        if (text[0] != '\0')
            fprintf(stderr, "troupe modify: a job cannot get another key, only give up its own: "
                            "key=\n");
        what->wish = TRP_WISH_FORGET;
        return text[0] == '\0';
    }
    what->wish = TRP_WISH_LIVE;
    what->member = strncmp(given, "config.", 7) == 0 ? given + 7 : given;
    if (!read_value(text, value))
        return false;
    what->value = (const char *)value->data;
    return true;
}

int program_modify(int argc, char **argv)
{
    if (argc < 3 || argv[1][0] == '-') {
        bool asked = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        use_modify(asked ? stdout : stderr);
        return asked ? PROGRAM_DONE : PROGRAM_MISUSED;
    }
    trp_asker asker;
    bool runs;
    int result = trp_asker_open(&asker, "troupe modify", true, &runs);
    for (int i = 2; result == PROGRAM_DONE && i < argc; i++) {
        trp_buffer value = {0};
        trp_wire_answer answer;
        trp_wire_wish what = {.of = trp_job_named(argv[1])};
        if (!read_wish(argv[i], &value, &what))
            result = PROGRAM_MISUSED;
        else if (!trp_asker_wish(&asker, &what, &answer))
            result = PROGRAM_FAILED;
        trp_buffer_free(&value);
    }
    trp_asker_close(&asker);
    return result;
}
