// program.h: the commands of `troupe-server`, which `troupe` passes on to it. Each reads its own
// command line and gives the status with which the program ends: 0, 1: it has failed, 2: the
// command line is wrong.
#ifndef TRP_SERVER_PROGRAM_H
#define TRP_SERVER_PROGRAM_H

#include <stdio.h>

enum { PROGRAM_DONE, PROGRAM_FAILED, PROGRAM_MISUSED };

// What `--help` of a command prints: how it is used, an empty line, and more.
typedef void program_usage(FILE *out);
// Says what is wrong with a command line, and how the command is used. `format` NULL: what is wrong
// has been said. PROGRAM_MISUSED.
__attribute__((format(printf, 3, 4))) int program_misused(const char *command, program_usage *usage,
                                                          const char *format, ...);

int program_server(int argc, char **argv); // `server start|stop|status|gc|link`
int program_gateway(int argc, char **argv);
int program_track(int argc, char **argv);
int program_predict(int argc, char **argv); // For `troupe predict --socket`.
int program_routes(int argc, char **argv);
int program_jobs(int argc, char **argv);
int program_stop(int argc, char **argv);
int program_modify(int argc, char **argv);
int program_logs(int argc, char **argv);

#endif
