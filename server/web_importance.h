// web_importance.h: which parameters of a sweep mattered, of the trials that are kept of it.
#ifndef TRP_SERVER_WEB_IMPORTANCE_H
#define TRP_SERVER_WEB_IMPORTANCE_H

#include <server/web_sweeps.h>

// Writes the member "importance": [{"name", "share"}], the most important first, by PED-ANOVA. What
// there is no memory for, or too few trials, is left out.
void web_importance(trp_buffer *out, const web_sweep *sweep);

#endif
