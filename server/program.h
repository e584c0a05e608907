// program.h: the commands of `troupe-server`, which `troupe` passes on to it. Each reads its own
// command line and gives the status with which the program ends: 0, 1: it has failed, 2: the
// command line is wrong.
#ifndef TRP_SERVER_PROGRAM_H
#define TRP_SERVER_PROGRAM_H

enum { PROGRAM_DONE, PROGRAM_FAILED, PROGRAM_MISUSED };

int program_server(int argc, char **argv); // `server start|stop|status|gc|link`
int program_gateway(int argc, char **argv);
int program_link(int argc, char **argv); // `server link`
int program_track(int argc, char **argv);
int program_predict(int argc, char **argv); // For `troupe predict --socket`.
int program_routes(int argc, char **argv);
int program_jobs(int argc, char **argv);
int program_stop(int argc, char **argv);
int program_modify(int argc, char **argv);
int program_logs(int argc, char **argv);

#endif
