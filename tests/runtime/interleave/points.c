// points.c: tells the explorer where the variables are of the library that this is linked into.
#include <interleave/explore.h>

#include <link.h>
#include <stddef.h>

#define SECTION_END __attribute__((weak, visibility("hidden")))
extern char __start_thread_state[] SECTION_END, __stop_thread_state[] SECTION_END;
extern char __start_vast_state[] SECTION_END, __stop_vast_state[] SECTION_END;

static int tell(struct dl_phdr_info *info, size_t size, void *unused)
{
    explore_variables its = {.thread = {__start_thread_state, __stop_thread_state},
                             .vast = {__start_vast_state, __stop_vast_state}};
    bool mine = false;
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        char *from = (char *)info->dlpi_addr + part->p_vaddr, *to = from + part->p_memsz;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_W) != 0)
            its.all = (explore_range){from, to};
        if (part->p_type == PT_GNU_RELRO)
            its.constant = (explore_range){from, to};
        if (part->p_type == PT_LOAD && (char *)(uintptr_t)&tell >= from &&
            (char *)(uintptr_t)&tell < to)
            mine = true;
    }
    if (mine)
        explore_module(&its);
    return mine;
}

__attribute__((constructor)) static void begin(void)
{
    (void)dl_iterate_phdr(tell, NULL);
}
