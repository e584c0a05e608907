// children.h: what the tests of supervisors share: looking at a supervisor's child.
#ifndef TROUPE_TEST_CHILDREN_H
#define TROUPE_TEST_CHILDREN_H

#include <support.h>

#include <troupe/supervise.h>

// The child's address, and how often it was started.
static inline troupe_actor look_at_child(troupe_supervisor_actor top, size_t index,
                                         uint32_t *starts)
{
    troupe_child_state child;
    troupe_must(troupe_supervisor_child(top, index, &child));
    if (starts != NULL)
        *starts = child.starts;
    return child.address;
}

typedef struct fall {
    troupe_supervisor_actor top;
    size_t index;
    uint32_t starts;
} fall;

static inline bool is_up(void *user)
{
    fall *wanted = user;
    uint32_t starts;
    return look_at_child(wanted->top, wanted->index, &starts).id != 0 && starts == wanted->starts;
}

// Waits until the child runs, started so often.
static inline void await_starts(troupe_supervisor_actor top, size_t index, uint32_t starts)
{
    fall wanted = {top, index, starts};
    assert_true(support_wait_until(is_up, &wanted, SUPPORT_SOON_MS));
}

#endif
