// pbt_log.h: what became of a population: a file of lines of JSON, and what one trial's weights
// have gone through, read from it.
//
//     {"trial": 3, "report": 0, "x": {"rate": 0.1, "width": 32}}
//     {"trial": 3, "report": 10, "source": 1, "source_report": 10, "x": {"rate": 0.12, "width":
//     32}}
//
// The first kind is a trial's first point, the second what it went on with after that report, from
// the checkpoint of the source. Coordinates are those of points: of a choice its number.
#ifndef TRP_PBT_LOG_H
#define TRP_PBT_LOG_H

#include <stdbool.h>
#include <troupe/search.h>

typedef struct trp_pbt_log {
    int fd;      // -1: none.
    bool warned; // That a line could not be written.
} trp_pbt_log;

typedef struct trp_pbt_line {
    int trial, report;
    int source, source_report; // Source: -1: it is the trial's first point.
} trp_pbt_line;

// Makes the file anew. A population that goes on takes the same steps again, and writes the same.
troupe_status trp_pbt_log_open(trp_pbt_log *log, const char *path);
// What cannot be written is warned of once: the population goes on.
void trp_pbt_log_add(trp_pbt_log *log, const troupe_problem *problem, const trp_pbt_line *line,
                     const double *x);
void trp_pbt_log_close(trp_pbt_log *log);

#endif
