// test_type.twin.c: the second translation unit of test_type.c, with tables of its own.
#include <shapes.h>

uint64_t twin_hash(void);

uint64_t twin_hash(void)
{
    return troupe_type_hash(&troupe_type_everything);
}
