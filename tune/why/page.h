// page.h: the page of a sweep or a study.
#ifndef TRP_WHY_PAGE_H
#define TRP_WHY_PAGE_H

#include <tune/why/trials.h>

enum { TRP_PAGE_TRIALS = 10000, TRP_PAGE_CURVES = 200 }; // More are counted.

// What the page is made of.
typedef struct trp_page_facts {
    const trp_trials *trials;
    const trp_seen_trial *best;      // NULL: none.
    const double *pedanova, *fanova; // columns for each objective.
    const bool *front;               // Of each trial; NULL: there is one objective.
    bool *kept;                      // Trials that the page has: the best, and others evenly.
    size_t kept_count;
    size_t reporting; // Trials that have a curve.
} trp_page_facts;

// `made` is the time in UTC.
void trp_page(const trp_page_facts *facts, const char *made, trp_buffer *out);
// What the page's script draws, as JSON (page_data.c).
void trp_page_data(const trp_page_facts *facts, trp_buffer *out);

#endif
