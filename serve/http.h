// http.h: a service over HTTP.
#ifndef TRP_SERVE_HTTP_H
#define TRP_SERVE_HTTP_H

#include <serve/service.h>

typedef struct trp_http trp_http;

// Listens at 127.0.0.1; port 0: any that is free. TROUPE_UNSUPPORTED: there is no libmicrohttpd;
// TROUPE_IO: the port is taken.
troupe_status trp_http_start(trp_service_shared *shared, uint16_t port, trp_http **http);
uint16_t trp_http_port(const trp_http *http);
// Ends it, and clears *http. Every request that it handed on has been answered, and no other one
// gets in any more.
void trp_http_stop(trp_http **http);

#endif
