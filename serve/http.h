// http.h: a service over HTTP.
#ifndef TRP_SERVE_HTTP_H
#define TRP_SERVE_HTTP_H

#include <serve/service.h>

typedef struct trp_http trp_http;

typedef struct trp_http_where {
    const char *address;           // NULL: 127.0.0.1.
    const char *name;              // That clients may call it by; NULL: its address alone.
    uint16_t port;                 // 0: any that is free.
    const char *certificate, *key; // Files; NULL: not encrypted.
} trp_http_where;

// TROUPE_INVALID: the address is none, or other machines can listen in and there is no certificate.
troupe_status trp_http_check_where(const trp_http_where *where);
// Listens there. TROUPE_UNSUPPORTED: there is no libmicrohttpd; TROUPE_IO: the port is taken, or
// the certificate is none; TROUPE_NOT_FOUND: its file, or its key's.
troupe_status trp_http_start(trp_service_shared *shared, const trp_http_where *where,
                             trp_http **http);
// "https://192.168.1.5:41523"
const char *trp_http_base(const trp_http *http);
// Ends it, and clears *http. Every request that it handed on has been answered, and no other one
// gets in any more.
void trp_http_stop(trp_http **http);

#endif
