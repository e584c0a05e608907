// searcher.h: what searchers share.
#ifndef TRP_SEARCHER_H
#define TRP_SEARCHER_H

#include <troupe/search.h>

// Stands for a searcher that could not be made, with the thread's last error, which is its name.
// Never NULL: where it is given, NULL means the default.
troupe_searcher *trp_searcher_refused(void);

#endif
