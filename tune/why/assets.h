// assets.h: the files of tune/why/page/, which the build puts into the library.
#ifndef TRP_ASSETS_H
#define TRP_ASSETS_H

#include <stddef.h>

typedef struct trp_asset {
    const char *path, *type; // "/report.js"
    const unsigned char *data;
    size_t size;
} trp_asset;
extern const trp_asset trp_assets[];
extern const size_t trp_asset_count;

#endif
