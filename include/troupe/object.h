// object.h: values in the node's shared memory, and waiting for references of every kind.
//
// An object is written once, sealed, and from then on never changes: any process of the node reads
// it in place. It lives as long as a reference to it is held, even if its creator has died. Every
// function here may be called from any thread.
#ifndef TROUPE_OBJECT_H
#define TROUPE_OBJECT_H

#include <troupe/wire.h>

TROUPE_BEGIN_C

// Copies `value` into the store and returns a reference that the caller owns. References in the
// value stay the caller's; the objects that they name live as long as the new object does, and each
// reader of the value gets references of its own, to be consumed or dropped one by one. If the
// store is full, objects that are not being read are moved to disk, and come back when they are
// read; if none can be moved, the call waits for objects to be dropped (.spill_bytes_max and
// .store_wait_ms of troupe_start). troupe_get returns a failure (still full: TROUPE_NO_MEMORY,
// larger than the store: TROUPE_TOO_LARGE, a stale reference in the value: TROUPE_INVALID).
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_put_as(const troupe_type *type, const void *value);
#define troupe_put(T, ...) troupe_put_as(&troupe_type_##T, TROUPE_POINTER(const T, (__VA_ARGS__)))

// As troupe_put, for bytes: the type of the value is troupe_bytes. `size` may be 0.
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_put_bytes(const void *data, size_t size);

// An object under construction: `size` writable bytes at `data` (64-byte aligned, content
// undefined), invisible to readers until it is sealed.
typedef struct troupe_buffer {
    void *data;
    size_t size;
    uint64_t id_;
} troupe_buffer;

// Creates an object of `size` bytes to be filled in place. TROUPE_NO_MEMORY: the store is full (see
// troupe_put_as); TROUPE_TOO_LARGE: it could never hold that much. The caller must seal or discard
// it.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_buffer_create(size_t size, troupe_buffer *buffer);

// Seals the object: from now on it is read-only. Clears `buffer`; *ref (to troupe_bytes) is the
// caller's. TROUPE_INVALID: it was sealed or discarded before.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_buffer_seal(troupe_buffer *buffer, troupe_ref *ref);

// Discards an object that was not sealed, and clears `buffer`. Harmless on a cleared one.
TROUPE_API void troupe_buffer_discard(troupe_buffer *buffer);

// An object's bytes, lent read-only: a write through `data` ends in a segmentation fault.
typedef struct troupe_view {
    const void *data; // 64-byte aligned, zero-copy
    size_t size;
    uint64_t id_;
} troupe_view;

// Lends the bytes of an object made by troupe_put_bytes or troupe_buffer_create, or of a call's
// result above 64 KiB, without copying them. The reference is not consumed, and the view stays
// valid until troupe_view_end even if the reference is dropped or the creator dies. Waits up to
// `timeout_ms` for a call's result. TROUPE_TIMED_OUT: not ready in time; TROUPE_WRONG_TYPE: not
// bytes; TROUPE_INVALID: stale or foreign reference; TROUPE_NO_MEMORY: it is on disk, and there is
// no room for it; TROUPE_CORRUPT: its file is gone or damaged; else the failure of the call that
// should have produced the value.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_view_bytes(troupe_ref ref, troupe_view *view,
                                                           int timeout_ms);

// Ends a view and clears it. Harmless on a cleared one.
TROUPE_API void troupe_view_end(troupe_view *view);

// Waits for the value, at most `timeout_ms` (TROUPE_FOREVER; TROUPE_POLL: does not wait), copies it
// to *value and consumes the reference. Only TROUPE_TIMED_OUT leaves the reference as it is: the
// wait has ended, not the call. A failed call returns its status, with the error text in
// troupe_last_error(). TROUPE_WRONG_TYPE: the text names both types. TROUPE_DEADLOCK: called inside
// a method, without a timeout, for a call that waits behind that very method, or for one whose
// actor waits for this one, through any number of processes (docs/threads.md). TROUPE_BUSY: in a
// method, while 256 methods of the process wait already. TROUPE_INVALID also: the reference was
// received from another process or read from an object, and its result refers back to it: such a
// cycle of references could never be freed. TROUPE_TIMED_OUT also without a time-out: a stopped
// process (SIGSTOP, a debugger) has been moving the object to or from disk for .store_wait_ms of
// troupe_start.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_get_as(const troupe_type *type, troupe_ref ref,
                                                       void *value, int timeout_ms);
// troupe_get(int64_t, sum, &total) or, at most 20 ms, troupe_get(int64_t, sum, &total, 20). A macro
// whose last argument is a time-out waits for ever if it is left out, here and elsewhere.
#define troupe_get(...) TROUPE_GET_(__VA_ARGS__, )
#define TROUPE_GET_(T, ref, value, ...)                                                            \
    troupe_get_as(&troupe_type_##T, (ref), TROUPE_POINTER(T, value), TROUPE_TIMEOUT_(__VA_ARGS__))

// As troupe_get for a value of any type, returned as MessagePack: for tools and other languages.
// The bytes are in the thread's arena. References in it, each an array of its two numbers, are the
// caller's as after troupe_get: troupe_unpack with the type extracts them.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_get_packed(troupe_ref ref, troupe_bytes *value,
                                                           int timeout_ms);
#define troupe_get_packed(...) TROUPE_GET_PACKED_(__VA_ARGS__, )
#define TROUPE_GET_PACKED_(ref, value, ...)                                                        \
    troupe_get_packed((ref), (value), TROUPE_TIMEOUT_(__VA_ARGS__))

// Waits until at least `needed` of `count` references are ready (troupe_get would not wait) or
// `timeout_ms` have passed. ready[i] says which are, *ready_count how many, which can be more than
// `needed`; both may be NULL. Consumes nothing. TROUPE_TIMED_OUT: fewer than `needed` were ready in
// time (ready[] is set all the same); TROUPE_INVALID: needed > count.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_wait(const troupe_ref *refs, size_t count,
                                                     size_t needed, int timeout_ms, bool *ready,
                                                     size_t *ready_count);

// Waits for the values of `count` references of one type, copies them to `values` (room for
// `count`) and consumes all references. If some calls failed, returns the failure of the first of
// them in the order of `refs`; the values of failed calls are zeros, all others are set.
// TROUPE_TIMED_OUT: not all were ready in time; none is consumed. TROUPE_DEADLINE_EXCEEDED: a
// stopped process began to move one while the others were read.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_get_all_as(const troupe_type *type,
                                                           const troupe_ref *refs, size_t count,
                                                           void *values, int timeout_ms);
// troupe_get_all(int64_t, refs, 3, values) or troupe_get_all(int64_t, refs, 3, values, 20)
#define troupe_get_all(...) TROUPE_GET_ALL_(__VA_ARGS__, )
#define TROUPE_GET_ALL_(T, refs, count, values, ...)                                               \
    troupe_get_all_as(&troupe_type_##T, (refs), (count), TROUPE_POINTER(T, values),                \
                      TROUPE_TIMEOUT_(__VA_ARGS__))

// A set of references that are taken out in the order in which they become ready. troupe_wait looks
// at all its references on every call; a set handles each of them once, so it is what to use for
// many references that are waited for one by one. Several threads may use a set. The references in
// it stay their owner's, and must not be consumed or dropped before they are taken out or the set
// is closed.
typedef struct troupe_ref_set troupe_ref_set;
TROUPE_API TROUPE_MUST_USE troupe_status troupe_ref_set_open(troupe_ref_set **set);
// Adds a reference, ready or not; `tag` is returned with it. May be done at any time.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_ref_set_add(troupe_ref_set *set, troupe_ref ref,
                                                            void *tag);
// Takes out the reference that became ready first (troupe_get will not wait); `tag` may be NULL.
// Waits up to `timeout_ms`. TROUPE_TIMED_OUT: none was ready in time; TROUPE_NOT_FOUND: the set is
// empty.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_ref_set_next(troupe_ref_set *set, int timeout_ms,
                                                             troupe_ref *ref, void **tag);
// Frees the set (NULL: nothing), but not the references in it. No thread may be using it.
TROUPE_API void troupe_ref_set_close(troupe_ref_set *set);

// Drops a reference without reading it; a call behind it runs all the same. Harmless on an empty
// reference and on one that was consumed.
TROUPE_API void troupe_ref_drop(troupe_ref ref);

// Makes a reference that the caller owns from a borrowed one (references in a method's arguments
// are borrowed until it returns); it must be consumed or dropped in turn. Empty, with the error
// text in troupe_last_error(), if `ref` is stale, memory is short, or the process holds the object
// 65,535 times, which is the limit.
TROUPE_API TROUPE_MUST_USE troupe_ref troupe_ref_keep(troupe_ref ref);

// Splits the result of a call: makes references to the fields of the record (a TROUPE_STRUCT) that
// `ref` stands for, ready or not. Each is a reference like any other, to a value of its field's
// type: it can be passed on, waited for and dropped without the others, and does not keep them
// alive. `parts` says where the references go, one for each field in order; NULL: that field is
// dropped. Consumes `ref`, and never waits. If the call fails, so does each part; cancelling one
// cancels the call, and so all of them. Other failures are returned by troupe_get of the parts: a
// field that is a fixed array (TROUPE_UNSUPPORTED), a `count` that is not the number of fields
// (TROUPE_INVALID), a call whose result is of another type (TROUPE_WRONG_TYPE).
TROUPE_API void troupe_ref_split_as(const troupe_type *type, troupe_ref ref,
                                    troupe_ref *const *parts, size_t count);
// TROUPE_STRUCT(halves, (troupe_array_double, low), (troupe_array_double, high));
// troupe_ref_split(halves, troupe_call(sorter, sorter_halve, ...), &low, &high);
#define troupe_ref_split(S, ref, ...)                                                              \
    troupe_ref_split_as(&troupe_type_##S, (ref), (troupe_ref *const[]){__VA_ARGS__},               \
                        TROUPE_SPLIT_COUNT_(S, TROUPE_COUNT(__VA_ARGS__)))
// A constant; compiles only if it is the number of fields.
#define TROUPE_SPLIT_COUNT_(S, count)                                                              \
    (sizeof(struct {                                                                               \
        _Static_assert((count) == sizeof troupe_fields_##S / sizeof troupe_fields_##S[0],          \
                       "troupe_ref_split takes a pointer for each field of " #S);                  \
        char unused[count];                                                                        \
    }))

// What the node's store holds now.
typedef struct troupe_store_usage {
    uint64_t objects;      // sealed, or being filled
    uint64_t bytes_used;   // by those objects, as allocated
    uint64_t bytes_backed; // of memory that the segment has taken from the system
    uint64_t bytes_max;    // its limit
    // How many of the objects have their bytes on disk because memory was full, and the size of all
    // files of objects, including those of objects that have been brought back (the limit is
    // .spill_bytes_max of troupe_start).
    uint64_t objects_on_disk, bytes_on_disk;
} troupe_store_usage;
TROUPE_API troupe_status troupe_store_usage_get(troupe_store_usage *usage, size_t size);
#define troupe_store_usage_get(usage) troupe_store_usage_get((usage), sizeof(troupe_store_usage))

TROUPE_END_C

#endif
