// consumer.cpp: the declarations as C++ sees them. (The macros that declare classes are C.)
#include <troupe.h>

#include <cstdio>
#include <cstring>

int main()
{
    // Not started: an honest status, and its sentence, come through the C++ side.
    int64_t value = 0;
    troupe_ref none = {};
    troupe_status status = troupe_get(int64_t, none, &value, TROUPE_POLL);
    std::printf("version %d, %s: %s\n", troupe_version(), troupe_status_name(status),
                troupe_last_error()->text);
    return troupe_version() == TROUPE_VERSION_NUMBER && status != TROUPE_OK &&
                   std::strlen(troupe_last_error()->text) > 0
               ? 0
               : 1;
}
