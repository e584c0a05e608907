// post.h: a client of the service, as any other program could have it: HTTP over a socket.
#ifndef DIGITS_POST_H
#define DIGITS_POST_H

#include <troupe.h>

// Asks the service for the digits on the images (bytes, rows x height x width), one for each row,
// by one request. TROUPE_IO: no connection, or no answer; TROUPE_FAILED: the text is the answer.
TROUPE_MUST_USE troupe_status post_images(const troupe_service_info *service,
                                          const troupe_tensor *images, uint8_t *answers);

#endif
