// serve.h: what becomes of the best network: it is kept in a repository of models, and served.
#ifndef DIGITS_SERVE_H
#define DIGITS_SERVE_H

#include "data.h"

// Pushes the checkpoint as "digits" into the repository `storage`/models, opens it there by its
// ref, serves it under /digits, also at the unix socket (NULL: at none), and asks the service for
// all test images. Prints what comes of each. The service stays for `seconds` then, for curl.
// TROUPE_FAILED: the service reads an image in another way than the model itself.
TROUPE_MUST_USE troupe_status digits_serve(const char *checkpoint, const digits *data,
                                           const char *storage, int seconds, const char *socket);

#endif
