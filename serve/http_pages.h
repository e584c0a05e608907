// http_pages.h: what is said of a service over HTTP.
#ifndef TRP_SERVE_HTTP_PAGES_H
#define TRP_SERVE_HTTP_PAGES_H

#include <runtime/base/buffer.h>
#include <serve/service.h>

void trp_http_describe(trp_service_shared *shared, trp_buffer *out);
void trp_http_metrics(trp_service_shared *shared, trp_buffer *out);

#endif
