// bench_first.c: the figures of the first run: calls, objects, start, memory, collectives, each
// beside a peer that was measured in the same run. Runs the programs that answer one question each,
// so that one which fails or hangs costs its own figures only.
//
//     bench_first [--quick]    --quick: one small round of each; shows that all of it works
//
// Prints one JSON object a line. Exits with failure if a figure or its peer is missing, or a line
// is not valid JSON.
#include "harness.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8, OUTPUT_MAX = 1 << 20, SECONDS_MAX = 300 };

enum { NAMES_MAX = 4 };

// Of a program with many rows, those of the first run.
static const struct program {
    const char *name, *rows[NAMES_MAX];
} programs[] = {{"bench_call", {0}},
                {"bench_objects", {"put.", "get.", "view."}},
                {"bench_start", {0}},
                {"bench_idle", {0}},
                {"bench_allreduce", {0}}};

// ---- A line is checked as any reader of JSON would: these skip one thing, or return NULL

static const char *skip_space(const char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

static const char *skip_text(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < ' ')
            return NULL;
        if (*at == '\\' && !*++at)
            return NULL;
    }
    return at + 1;
}

static const char *skip_number(const char *at)
{
    char *end;
    if (*at != '-' && !isdigit((unsigned char)*at))
        return NULL; // strtod would take "nan" and "inf" as well.
    (void)strtod(at, &end);
    return end == at ? NULL : end;
}

static const char *skip_value(const char *at, int depth);

// An object's or array's members, up to the closing bracket.
static const char *skip_members(const char *at, char close, int depth)
{
    at = skip_space(at + 1);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (close == '}') {
            at = skip_text(at);
            if (!at || *(at = skip_space(at)) != ':')
                return NULL;
            at = skip_space(at + 1);
        }
        at = skip_value(at, depth + 1);
        if (!at)
            return NULL;
        at = skip_space(at);
        if (*at == close)
            return at + 1;
        if (*at != ',')
            return NULL;
        at = skip_space(at + 1);
    }
}

static const char *skip_value(const char *at, int depth)
{
    static const char *const words[] = {"null", "true", "false"};
    if (depth > DEPTH_MAX)
        return NULL;
    if (*at == '{')
        return skip_members(at, '}', depth);
    if (*at == '[')
        return skip_members(at, ']', depth);
    if (*at == '"')
        return skip_text(at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    }
    return skip_number(at);
}

static bool is_valid(const char *line)
{
    const char *end = *line == '{' ? skip_value(line, 0) : NULL;
    return end && !*end && strstr(line, "\"name\":") && strstr(line, "\"value\":") &&
           strstr(line, "\"unit\":");
}

// ---- Running

// Passes the lines of a program on. False if one is not valid, or there is none.
static bool pass_on(const char *program, char *output)
{
    bool good = true;
    size_t count = 0;
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), count++) {
        if (is_valid(line)) {
            puts(line);
        } else {
            fprintf(stderr, "bench_first: %s printed a line that is not valid: %s\n", program,
                    line);
            good = false;
        }
    }
    fflush(stdout);
    return good && count > 0;
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    if (argc > 2 || (argc == 2 && !quick))
        bench_die("usage: bench_first [--quick]");
    static char output[OUTPUT_MAX];
    char reason[BENCH_REASON];
    bench_print_machine(quick ? "quick" : "full");
    bool all = true;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *arguments[NAMES_MAX + 3] = {programs[i].name}, *name = programs[i].name;
        int used = 1;
        if (quick)
            arguments[used++] = "--quick";
        for (int row = 0; row < NAMES_MAX && programs[i].rows[row]; row++)
            arguments[used++] = programs[i].rows[row];
        // A program that ends with failure has said in its lines which figure is missing.
        bool ended = bench_run(arguments, SECONDS_MAX, output, sizeof output, reason);
        bool good = pass_on(name, output);
        if (!good)
            printf("{\"name\": \"%s\", \"value\": null, \"unit\": \"\", \"missing\": \"%s\"}\n",
                   name, ended ? "it printed nothing valid" : reason);
        if (!ended)
            fprintf(stderr, "bench_first: %s\n", reason);
        all &= ended && good;
    }
    return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
