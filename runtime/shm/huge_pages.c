// huge_pages.c: pages of 2 MiB for the data of a large store, where the system gives them (see
// docs/internals/runtime/memory-reclaim.md).
#include <runtime/shm/layout.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MADV_POPULATE_WRITE)
enum { MADV_POPULATE_WRITE = 23 };
#endif

#define FOLDER "/sys/kernel/mm/transparent_hugepage/"

// The chosen one of "always [advise] never" in a file of the kernel's; "": there is none.
static void read_choice(const char *path, char *choice, size_t size)
{
    char text[128];
    choice[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    char *from = strchr(text, '['), *to = from != NULL ? strchr(from, ']') : NULL;
    if (to != NULL && (size_t)(to - from) <= size) {
        memcpy(choice, from + 1, (size_t)(to - from - 1));
        choice[to - from - 1] = '\0';
    }
}

bool trp_segment_huge_allowed(void)
{
    char choice[16];
    read_choice(FOLDER "hugepages-2048kB/shmem_enabled", choice, sizeof choice);
    if (choice[0] == '\0' || strcmp(choice, "inherit") == 0) // Older kernels have the second alone.
        read_choice(FOLDER "shmem_enabled", choice, sizeof choice);
    return strcmp(choice, "advise") == 0 || strcmp(choice, "within_size") == 0 ||
           strcmp(choice, "always") == 0 || strcmp(choice, "force") == 0;
}

void trp_segment_huge_ask(void)
{
    uint64_t data = trp_segment.header->data_at, size = trp_segment.header->capacity;
    char *maps[] = {trp_segment.base, (char *)(uintptr_t)trp_segment.read_only};
    for (int i = 0; i < 2; i++) {
        (void)madvise(maps[i], data, MADV_NOHUGEPAGE);
        (void)madvise(maps[i] + data, size, MADV_HUGEPAGE);
    }
}

bool trp_segment_huge_back(uint64_t at, uint64_t size)
{
    errno = 0;
    return madvise(trp_segment.base + at, size, MADV_POPULATE_WRITE) == 0;
}
