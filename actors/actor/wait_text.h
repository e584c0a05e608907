// wait_text.h: what each actor waits for, in words.
#ifndef TRP_ACTOR_WAIT_TEXT_H
#define TRP_ACTOR_WAIT_TEXT_H

#include <actors/sched/wait_notes.h>
#include <troupe/status.h>

enum { TRP_WAIT_TEXT = 160 };
// "counter_add of counter#3". Takes locks of rows and actors.
void trp_wait_describe(const trp_wait_look *wait, char text[TRP_WAIT_TEXT]);
// TROUPE_BUSY, with a sentence that lists who waits for what: the first few, and how many more;
// `stalled` others hold their threads without a word, and `most` together are the limit.
troupe_status trp_waits_full(int most, int stalled);

#endif
