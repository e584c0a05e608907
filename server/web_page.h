// web_page.h: the files of the dashboard, server/page/, which the build puts into the program.
#ifndef TRP_SERVER_WEB_PAGE_H
#define TRP_SERVER_WEB_PAGE_H

#include <stddef.h>

typedef struct web_page {
    const char *path, *type;
    const unsigned char *data;
    size_t size;
} web_page;
extern const web_page web_pages[];
extern const size_t web_page_count;

#endif
