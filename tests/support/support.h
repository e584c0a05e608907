// support.h: small helpers that many tests need. Each one fails the test by itself, with a message,
// if it cannot do its work; so callers check nothing.
#ifndef TROUPE_TEST_SUPPORT_H
#define TROUPE_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>

// How long a test waits for what must happen "soon", in milliseconds.
enum { SUPPORT_SOON_MS = 10000 };

// How many times as long things take as without a sanitizer, at most.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SUPPORT_SLOWER = 4 };
#else
enum { SUPPORT_SLOWER = 1 };
#endif

// Monotonic milliseconds.
int64_t support_now_ms(void);

// Nanoseconds that this thread has had a CPU: what others use it for meanwhile does not count.
int64_t support_cpu_ns(void);

// Waits until `condition(context)` is true, asking again every millisecond; false after
// `timeout_ms`.
bool support_wait_until(bool (*condition)(void *context), void *context, int timeout_ms);

// Waits until the counter, which other processes may write, is at least so high; fails the test
// where it does not come soon.
void support_await_counter(const _Atomic int *counter, int least);

// Zeros that the processes which are forked from now on share with this one.
void *support_share(size_t size);
// The same memory (NULL: new) with zeros in it again.
void *support_zeros(void *memory, size_t size);

// Makes an empty directory below TMPDIR (default /tmp), and returns its path: to be given to
// support_directory_remove, which removes it with everything in it and frees the path.
char *support_directory_make(void);
void support_directory_remove(char *path);

// `directory` + "/" + `name`, to be freed with free().
char *support_path(const char *directory, const char *name);
// The file's whole text, NUL-terminated, to be freed with free(); NULL if it cannot be opened.
char *support_read_file(const char *path);
// Fails the test unless the file of that name in the folder has this text.
void support_assert_file(const char *folder, const char *name, const char *expected);
void support_write_file(const char *path, const void *data, size_t size);
bool support_exists(const char *path);
// The entries of a directory, hidden ones and files that are one hole not counted; 0: there is
// none.
int support_count_files(const char *directory);

// Fills memory so that each 8 bytes of it say where they are and of which filling; and whether it
// still is as it was filled then.
void support_fill(void *memory, size_t size, uint64_t seed);
bool support_is_filled(const void *memory, size_t size, uint64_t seed);

// The open file descriptors of this process.
int support_count_descriptors(void);
// The living threads of this process.
int support_count_threads(void);
// The living thread of this process that has that name; 0: there is none.
int support_find_thread(const char *name);
// The processes that descend from `ancestor`, itself and zombies not counted.
int support_count_descendants(pid_t ancestor);
// The processes of that group, zombies not counted: who adopts these may be slow to wait for them.
int support_count_group(pid_t group);
// Whether the process exists and is no zombie.
bool support_process_lives(pid_t pid);
// Whether every one of `count` processes has ended within `timeout_ms`.
bool support_processes_end(const pid_t *pids, size_t count, int timeout_ms);
// Whether a child, of which waitpid gave that status, was killed by SIGKILL, or else came through
// with exit status 0. Any other end fails the test: it crashed, or found something wrong.
bool support_was_killed(int status);

// Runs `command` with /bin/sh, its standard output and errors together into `output` (cut and
// always terminated). Returns its exit status, or 128 + the signal that ended it.
int support_run(const char *command, char *output, size_t capacity);

// Fails the test with that sentence, below the whole of what a program wrote: cmocka would cut that
// after some 1000 bytes, and a sanitizer's report is longer.
#define support_fail_output(output, ...)                                                           \
    do {                                                                                           \
        support_print(output);                                                                     \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)
void support_print(const char *output);

// Lets a process that is not root mount file systems, in a namespace of its own, where the system
// allows that. To be called before the process has threads.
void support_allow_mounts(void);

// An environment variable that ctest sets; fails the test with a sentence where it is not set.
const char *support_setting(const char *name);

#endif
