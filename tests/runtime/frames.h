// frames.h: comparing frames, for the tests of each form that they travel in.
#ifndef TROUPE_TEST_FRAMES_H
#define TROUPE_TEST_FRAMES_H

#include <runtime/link/frame.h>
#include <support.h>

static inline void assert_same_frame(const trp_frame *a, const trp_frame *b)
{
    assert_true(a->kind == b->kind && a->flags == b->flags && a->from == b->from);
    assert_true(a->from_incarnation == b->from_incarnation);
    assert_true(a->to_incarnation == b->to_incarnation);
    assert_true(a->sequence == b->sequence && a->target == b->target && a->method == b->method);
    assert_true(a->schema == b->schema && a->call == b->call && a->deadline_ms == b->deadline_ms);
    assert_true(a->status == b->status && a->outcome == b->outcome && a->executed == b->executed);
    assert_int_equal(a->body_size, b->body_size);
    if (a->body_size > 0)
        assert_memory_equal(a->body, b->body, a->body_size);
}

#endif
