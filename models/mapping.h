// mapping.h: files that are read in place, by all who map them at a time out of the same memory.
//
// A file that is cut while it is mapped ends who reads behind its end with SIGBUS, and one that is
// written to changes under who reads. So each says whether its file is as it was, which is asked
// before it is read.
#ifndef TRP_MODELS_MAPPING_H
#define TRP_MODELS_MAPPING_H

#include <stdint.h>
#include <troupe/status.h>

// When a file was changed last, and how long it was.
typedef struct trp_file_stamp {
    int64_t bytes, changed_ns;
} trp_file_stamp;

typedef struct trp_mapping {
    const char *path; // Lent.
    const unsigned char *bytes;
    trp_file_stamp stamp;
    int fd; // Zeroed, and with no bytes: none is open.
} trp_mapping;

// Opens and maps a whole file. TROUPE_NOT_FOUND, TROUPE_IO; TROUPE_INVALID: it is no file, or
// empty.
troupe_status trp_mapping_open(const char *path, trp_mapping *mapping);
// Whether it is as it was then: TROUPE_CORRUPT says what has changed.
troupe_status trp_mapping_check(const trp_mapping *mapping, const trp_file_stamp *then);
// Harmless on a zeroed one.
void trp_mapping_close(trp_mapping *mapping);

#endif
