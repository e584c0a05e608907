// http_library.h: libmicrohttpd's functions. It is loaded when a service is first to have HTTP:
// with it come GnuTLS and nine more, which would make every start and every fork of a worker
// dearer.
#ifndef TRP_SERVE_HTTP_LIBRARY_H
#define TRP_SERVE_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <troupe/status.h>

// clang-format off
#define TRP_MHD_FUNCTIONS(X) \
    X(start_daemon, MHD_start_daemon) X(stop_daemon, MHD_stop_daemon) \
    X(suspend, MHD_suspend_connection) X(resume, MHD_resume_connection) \
    X(values, MHD_get_connection_values) X(connection_info, MHD_get_connection_info) \
    X(response, MHD_create_response_from_buffer) X(add_header, MHD_add_response_header) \
    X(queue, MHD_queue_response) X(destroy, MHD_destroy_response) \
    X(daemon_info, MHD_get_daemon_info) X(timeout, MHD_get_timeout) X(run, MHD_run)
// clang-format on

#define X(field, symbol) __typeof__(&symbol) field;
struct trp_mhd {
    TRP_MHD_FUNCTIONS(X)
};
#undef X
extern struct trp_mhd trp_mhd;

// TROUPE_UNSUPPORTED: the loader's sentence.
troupe_status trp_mhd_load(void);

#endif
