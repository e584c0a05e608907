// tree.h: whole folders: walked, copied and removed. No link is ever followed.
#ifndef TRP_TREE_H
#define TRP_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <troupe/status.h>

enum { TRP_TREE_DEPTH = 64 }; // Folders within folders; more are refused.

typedef enum trp_tree_kind {
    TRP_TREE_ENTER, // A folder, before what is in it,
    TRP_TREE_LEAVE, // and after.
    TRP_TREE_FILE,
    TRP_TREE_LINK,
    TRP_TREE_OTHER, // A pipe, a socket, a device.
} trp_tree_kind;

// What a walk has come to.
typedef struct trp_tree_node {
    trp_tree_kind kind;
    const char *path; // From the root; the root's is "".
    const char *name; // Its last part,
    int parent;       // in this open folder; -1: it is the root.
    int fd;           // Of a folder that was entered; else -1.
    int depth;        // Folders above it, without the root: of "a/b" 1; the root's is -1.
    bool empty;       // A folder with nothing in it, when it is left.
    mode_t mode;
} trp_tree_node;

// Calls `visit` for the folder `root` and all that is in it; ends with the first failure.
// TROUPE_NOT_FOUND: there is no `root`; TROUPE_IO; TROUPE_TOO_LARGE: too deep.
troupe_status trp_tree_walk(const char *root,
                            troupe_status (*visit)(void *user, const trp_tree_node *node),
                            void *user);

// Copies a file, a link or a whole folder's content to `to`: for a folder, into the folder `to`,
// which is made if need be. What is there already is replaced. File systems that can share blocks
// do. Pipes, sockets and devices are refused: TROUPE_INVALID.
troupe_status trp_tree_copy(const char *from, const char *to);

// Removes a folder with all that is in it; of a link to one, the link. Goes on after what cannot be
// removed, and says then what was left.
troupe_status trp_folder_discard(const char *path);

#endif
