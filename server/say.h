// say.h: what the server says, to its log: a line with the time.
#ifndef TRP_SERVER_SAY_H
#define TRP_SERVER_SAY_H

void trp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
