// gpu.h: for tests that need a real GPU.
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <troupe/device.h>
#include <unistd.h>

enum { GPU_SKIPPED = 77 }; // What ctest takes for a test that was left out.

// Whether CUDA can be used; says why not. Found out in a process of its own: ranks are forked, and
// a process that was forked from one that had used CUDA cannot use it.
static bool gpu_is_there(void)
{
    int status = -1, count;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        bool there = troupe_device_count(&count) == TROUPE_OK;
        if (!there)
            printf("NOTHING IS TESTED ON A GPU: %s\n", troupe_last_error()->text);
        fflush(stdout);
        _exit(!there);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

#endif
