// html_page.h: the sections of a run's report.
#ifndef TRP_HTML_PAGE_H
#define TRP_HTML_PAGE_H

#include <train/html_facts.h>

// `links` is the way from the page to the run's folder: "", or a relative path with "/" at its end.
// `made` is the time in UTC.
void trp_html_page(const trp_facts *facts, const char *links, const char *made, trp_buffer *out);

void trp_html_curves(const trp_facts *facts, trp_buffer *out);
void trp_html_attempts(const trp_facts *facts, const char *links, trp_buffer *out);
// The rows of what was asked after so many attempts had begun, in the table of attempts.
void trp_html_changes(const trp_facts *facts, uint64_t before, trp_buffer *out);
void trp_html_checkpoints(const trp_facts *facts, const char *links, trp_buffer *out);
void trp_html_logs(const trp_facts *facts, const char *links, trp_buffer *out);
void trp_html_settings(const trp_facts *facts, const char *links, trp_buffer *out);
void trp_html_others(const trp_facts *facts, trp_buffer *out);

// The page's script, line by line; the last one is NULL.
extern const char *const trp_html_script[];

#endif
