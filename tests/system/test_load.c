// test_load.c: a program that was not linked with the library loads it while it runs.
//
// label: nosan
#include <support.h>

#include <dlfcn.h>
#include <stdlib.h>

// What the library keeps for each thread must fit into the little that was left for it.
static void test_a_running_program_loads_the_library(void **state)
{
    (void)state;
    const char *path = getenv("TROUPE_LIBRARY");
    if (path == NULL)
        skip(); // This build's library is in parts.
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
    int (*version)(void) = NULL;
    *(void **)&version = dlsym(library, "troupe_version");
    assert_non_null(version);
    assert_true(version() > 0);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_running_program_loads_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
