// troupe.h: the subcommands of the program `troupe`.
#ifndef TROUPE_TOOL_H
#define TROUPE_TOOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// What a subcommand ends with.
enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_MISUSED = 2, TOOL_STOPPED = 3 };

int tool_actors(int argc, char **argv);
int tool_keys(int argc, char **argv);
int tool_memory(int argc, char **argv);
int tool_models(int argc, char **argv);
// Of a command of the train server's. Called with arguments that have one before them.
int tool_pass(int argc, char **argv);
// The file of `troupe-server`, beside this program; false: said.
bool tool_server_program(const char *command, char path[PATH_MAX]);
int tool_predict(int argc, char **argv);
int tool_report(int argc, char **argv);
int tool_serve(int argc, char **argv);
int tool_submit(int argc, char **argv);
int tool_train(int argc, char **argv);
int tool_tune(int argc, char **argv);
int tool_tune_best(int argc, char **argv);
int tool_tune_export(int argc, char **argv);
int tool_tune_report(int argc, char **argv);
int tool_tune_run(int argc, char **argv);
int tool_tune_train_best(int argc, char **argv);
int tool_worker(int argc, char **argv);

// What `troupe tune best` and `train-best` go by: rows for getopt_long, and what takes one of them
// in; false: it is none, or not well-formed, which is said.
#define TOOL_TUNE_BY                                                                               \
    {"metric", required_argument, NULL, 'm'}, {"goal", required_argument, NULL, 'g'},              \
    {                                                                                              \
        "scope", required_argument, NULL, 's'                                                      \
    }
struct troupe_best_options;
bool tool_tune_by(const char *command, int option, const char *given,
                  struct troupe_best_options *how);

// Sets *pid to the driver of the one node that there is (of this user, or of all), unless it is
// set. Else says on stderr why not, in the name of the command, and returns what to end with.
int tool_choose_node(const char *command, int *pid, bool all);
// What `--help` of a command prints: how it is used, an empty line, and more.
typedef void tool_usage(FILE *out);
// Says what is wrong with a command line, and how the command is used. `format` NULL: what is wrong
// has been said. TOOL_MISUSED.
__attribute__((format(printf, 3, 4))) int tool_misused(const char *command, tool_usage *usage,
                                                       const char *format, ...);
// Reads a number of `least` or more; else says so, and returns false.
bool tool_read_number(const char *command, const char *given, long least, long *number);

typedef struct tool_text {
    char text[32];
} tool_text;
tool_text tool_bytes(uint64_t bytes); // "1.5 MiB"
tool_text tool_time(double seconds);  // "12.0 s"

// Prints a text as JSON, or null.
void tool_print_text(const char *text);
// Prints one member of a JSON object: "name": "value", or null.
void tool_print_quoted(const char *name, const char *value);

#endif
