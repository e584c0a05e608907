// state_folder.c: see state_folder.h.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <train/state_folder.h>
#include <unistd.h>

#define ADVICE "set TROUPE_STATE to a folder of your own on a local disk, as /var/tmp/troupe-state"

troupe_status trp_state_folder_find(trp_path *folder)
{
    struct sockaddr_un address;
    const char *own = secure_getenv("TROUPE_STATE");
    const char *state = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    if (own != NULL && own[0] != '\0') {
        if (own[0] != '/')
            return troupe_fail(TROUPE_INVALID,
                               "TROUPE_STATE is \"%.200s\", expected an absolute path", own);
        TROUPE_TRY(trp_path_make(folder, "%s", own));
    } else if (state != NULL && state[0] == '/') { // A relative one is to be ignored.
        TROUPE_TRY(trp_path_make(folder, "%s/troupe", state));
    } else if (home != NULL && home[0] == '/') {
        TROUPE_TRY(trp_path_make(folder, "%s/.local/state/troupe", home));
    } else {
        return troupe_fail(TROUPE_INVALID,
                           "neither HOME nor XDG_STATE_HOME says where the train server keeps its "
                           "state: " ADVICE);
    }
    trp_path_trim(folder);
    return trp_state_folder_socket(folder->text, &address);
}

const char *trp_state_folder_unfit(long type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } all[] = {
        {0x6969, "NFS"},      {0x517b, "SMB"},      {0xfe534d42, "SMB"},    {0xff534d42, "CIFS"},
        {0x65735546, "FUSE"}, {0x01021997, "9p"},   {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},
        {0x73757245, "Coda"}, {0x6b414653, "kAFS"}, {0x0bd00bd0, "Lustre"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((uint32_t)type == all[i].type)
            return all[i].name;
    return NULL;
}

static troupe_status check_open(int fd, const char *folder)
{
    enum { OVERFLOW_UID = 65534 }; // As server_link.c refuses it of a peer.
    struct stat about;
    struct statfs system;
    if (fstat(fd, &about) != 0 || fstatfs(fd, &system) != 0)
        return trp_fail_errno(TROUPE_IO, "the state folder %s cannot be looked at", folder);
    if (about.st_uid != geteuid())
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the state folder %s belongs to user %u, and this process runs as %u: "
                           "expected a folder of its own (TROUPE_STATE names another)",
                           folder, (unsigned)about.st_uid, (unsigned)geteuid());
    if (about.st_uid == OVERFLOW_UID)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "user %d can have no train server, since users of other namespaces all "
                           "look like that one: run it as another user",
                           OVERFLOW_UID);
    if ((about.st_mode & 077) != 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the state folder %s can be entered by others (mode %03o): expected "
                           "0700, as chmod 700 makes it",
                           folder, (unsigned)about.st_mode & 0777);
    const char *unfit = trp_state_folder_unfit((long)system.f_type);
    if (unfit != NULL)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the state folder %s is on %s, and the train server needs a local file "
                           "system: " ADVICE,
                           folder, unfit);
    return TROUPE_OK;
}

troupe_status trp_state_folder_check(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "the state folder %s cannot be opened", folder);
    troupe_status status = check_open(fd, folder);
    close(fd);
    return status;
}

// With those above it, which are made for the user alone too.
static troupe_status make(const char *folder)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s", folder));
    for (char *at = path.text + 1;; at++) {
        char ended = *at;
        if (ended != '/' && ended != '\0')
            continue;
        *at = '\0';
        if (mkdir(path.text, 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
            return trp_fail_errno(TROUPE_IO, "the state folder %s cannot be made", folder);
        *at = ended;
        if (ended == '\0')
            return TROUPE_OK;
    }
}

troupe_status trp_state_folder_open(trp_path *folder)
{
    TROUPE_TRY(trp_state_folder_find(folder));
    TROUPE_TRY(make(folder->text));
    return trp_state_folder_check(folder->text);
}

troupe_status trp_state_folder_socket(const char *folder, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path, sizeof address->sun_path, "%s/server.sock", folder);
    if (length < 0 || (size_t)length >= sizeof address->sun_path)
        return troupe_fail(TROUPE_TOO_LARGE,
                           "the socket of the train server in %s would have a path of %d bytes, "
                           "and %zu is the most: set TROUPE_STATE to a shorter one",
                           folder, length, sizeof address->sun_path - 1);
    return TROUPE_OK;
}

troupe_status trp_state_folder_job(const char *folder, int64_t job, trp_path *path)
{
    return trp_path_make(path, "%s/jobs/%08" PRId64, folder, job);
}
