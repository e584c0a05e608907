// spill_file.h: objects' bytes in files, in a folder of the node that only its user may read.
// Nothing here knows the readers of an object: that is store/residency.h.
//
//     magic | version | header size | id | size | schema | encoding | 0 | checksum | 0 || bytes
//
// Large objects have a file each. To make one costs more than to write a small object, so those
// share one, "small": every row of the object table has a part of it, at a place that its number
// says. What is removed there becomes a hole; where the file system has none, all have own files.
//
// The header is written after the bytes, and the checksum (XXH3, 64 bits) covers both: what was not
// finished has no header, or that of an object that had the row before, and one of which any bit
// changed is found out. Nothing is synced: no file outlives its node.
#ifndef TRP_STORE_SPILL_FILE_H
#define TRP_STORE_SPILL_FILE_H

#include <runtime/store/store.h>
#include <troupe/runtime.h>

enum {
    TRP_SPILL_HEADER = 64,                        // Bytes of a file before the object's.
    TRP_SPILL_SMALL = 1 << 20,                    // Objects up to this size are small.
    TRP_SPILL_PART = TRP_SPILL_SMALL + (4 << 10), // A row's part of the file of small objects.
};

// The header's spill_sharing.
typedef enum trp_spill_sharing {
    TRP_SPILL_UNDECIDED,
    TRP_SPILL_TOGETHER,
    TRP_SPILL_APART
} trp_spill_sharing;

typedef struct trp_spill_object {
    trp_object id;
    uint64_t size, schema;
    trp_encoding encoding;
} trp_spill_object;

// Writes into the segment's header where files go, and how much: the driver, before any other
// process is there. The folder's name has 64 random bits and is not made known, since other users
// of the machine could make it first; nothing is made. Then removes folders that were left behind
// by nodes that have gone.
void trp_spill_plan(const troupe_options *options);
// The folder, for who removes it in the end: the same text as in the header, in this process's own
// memory. Empty: none.
const char *trp_spill_folder(void);

// Writes the object's file or part. NO_SPACE, IO, ...: there is none then.
troupe_status trp_spill_write(const trp_spill_object *object, const void *data);
// Reads it into `data`. CORRUPT: it is gone, torn or damaged, and the sentence says which; any
// other failure may pass.
troupe_status trp_spill_read(const trp_spill_object *object, void *data);
// Removes it, if it is there.
void trp_spill_remove(const trp_spill_object *object);
// The node process, after a death: from now on it says that the folder is in use, as who has died
// may have done.
void trp_spill_keep(void);

#endif
