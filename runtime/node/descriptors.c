// descriptors.c: see descriptors.h.
#include <runtime/node/descriptors.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/link/zmq.h>
#include <runtime/link/zmq_acceptor.h>
#include <runtime/shm/process_table.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t count_descriptors(void)
{
    uint64_t count = 0;
    DIR *open_ones = opendir("/proc/self/fd");
    if (open_ones == NULL)
        return 0;
    for (struct dirent *it; (it = readdir(open_ones)) != NULL;)
        count += it->d_name[0] != '.';
    closedir(open_ones);
    return count;
}

troupe_status trp_descriptors_plan(uint32_t *workers_max)
{
    enum { OWN = 48, EACH = 5 }; // Of a process without peers and some to spare; for each peer.
    struct rlimit limit;
    *workers_max = TRP_PROCESSES_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return TROUPE_OK;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    uint64_t tcp = (trp_self.options.transport == TROUPE_TRANSPORT_TCP) + trp_listens(), low;
    uint64_t own = count_descriptors() + OWN, needed = 0, fit = TRP_PROCESSES_MAX;
    for (uint64_t more; (more = own + EACH + trp_connections_reserve(tcp, needed, &low)) > needed;)
        needed = more; // What is kept grows with the limit, by less.
    uint64_t used = own + trp_connections_reserve(tcp, limit.rlim_cur, &low);
    if (limit.rlim_cur < used + fit * EACH)
        fit = limit.rlim_cur > used ? (limit.rlim_cur - used) / EACH : 0;
    *workers_max = (uint32_t)fit;
    unsigned long long may = limit.rlim_cur;
    if (fit == 0)
        return troupe_fail(TROUPE_IO,
                           "this process may have %llu descriptors open (ulimit -Hn) and Troupe "
                           "needs %llu at least",
                           may, (unsigned long long)needed);
    if (may < low)
        trp_log(TRP_WARN,
                "this process may have %llu descriptors open (ulimit -Hn): many connections over "
                "tcp at once may use them all, which ends a process; with %llu or more they cannot",
                may, (unsigned long long)low);
    return TROUPE_OK;
}

void trp_descriptors_hold_standard(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

troupe_status trp_descriptor_of_self(int *pidfd)
{
    *pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (*pidfd >= 0)
        return TROUPE_OK;
    if (errno != ENOSYS && errno != EPERM)
        return trp_fail_errno(TROUPE_IO, "no descriptor of this process could be made");
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "pidfd_open is missing here (%s), and without it no worker process can be "
                       "started: Linux has it since 5.3, valgrind and some sandboxes do not; with "
                       "TROUPE_LOCAL=1 in the environment everything runs in one process",
                       strerror(errno));
}
