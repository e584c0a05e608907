// fuzz_server.c: any bytes, read as what clients, runners and the train server say to each other.
// What is read is written and read back as the same.
#include <runtime/base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <train/wire.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static const troupe_type *type_of(trp_wire_kind kind)
{
    switch ((int)kind) {
    case TRP_WIRE_HELLO:
        return &troupe_type_trp_wire_hello;
    case TRP_WIRE_SUBMIT:
        return &troupe_type_trp_wire_submit;
    case TRP_WIRE_FIND:
    case TRP_WIRE_WATCH:
        return &troupe_type_trp_wire_job_name;
    case TRP_WIRE_LIST:
        return &troupe_type_trp_wire_list;
    case TRP_WIRE_WISH:
        return &troupe_type_trp_wire_wish;
    case TRP_WIRE_STOP:
        return &troupe_type_trp_wire_stop;
    case TRP_WIRE_GC:
        return &troupe_type_trp_wire_gc;
    case TRP_WIRE_RUNNER:
        return &troupe_type_trp_wire_runner;
    case TRP_WIRE_PROGRESS:
        return &troupe_type_trp_wire_progress;
    case TRP_WIRE_ANSWER:
        return &troupe_type_trp_wire_answer;
    case TRP_WIRE_JOB:
        return &troupe_type_trp_wire_job;
    case TRP_WIRE_JOBS:
        return &troupe_type_trp_wire_jobs;
    case TRP_WIRE_STATUS:
        return &troupe_type_trp_wire_status;
    case TRP_WIRE_WISHES:
        return &troupe_type_trp_wire_wishes;
    // Of files, in kinds that nothing else has.
    case TRP_WIRE_WISHES + 1:
        return &troupe_type_trp_wire_launch;
    case TRP_WIRE_WISHES + 2:
        return &troupe_type_trp_wire_order;
    case TRP_WIRE_WISHES + 3:
        return &troupe_type_trp_job_end;
    default:
        return &troupe_type_troupe_none;
    }
}

static void read_one(const trp_wire_frame *frame)
{
    const troupe_type *type = type_of(frame->kind);
    trp_arena arena = {0};
    trp_buffer once = {0}, twice = {0};
    void *value = trp_arena_alloc(&arena, type->size), *back = trp_arena_alloc(&arena, type->size);
    require(value != NULL && back != NULL);
    troupe_status status = trp_wire_read(frame, type, &arena, value);
    if (status != TROUPE_OK) {
        require(status == TROUPE_MALFORMED && troupe_last_error()->text[0] != '\0');
        trp_arena_clear(&arena);
        return;
    }
    trp_wire_frame again;
    size_t used;
    require(trp_wire_put(&once, frame->kind, frame->number, type, value) == TROUPE_OK);
    require(trp_wire_take(once.data, once.size, TRP_WIRE_BYTES_MAX, &again, &used) == TROUPE_OK &&
            used == once.size && again.number == frame->number);
    require(trp_wire_read(&again, type, &arena, back) == TROUPE_OK);
    require(trp_wire_put(&twice, frame->kind, frame->number, type, back) == TROUPE_OK);
    require(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    trp_buffer_free(&once);
    trp_buffer_free(&twice);
    trp_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0, used = 1;
    trp_wire_frame frame;
    while (used > 0) {
        troupe_status status = trp_wire_take(data + at, size - at, 1 << 20, &frame, &used);
        if (status != TROUPE_OK) {
            require(status == TROUPE_MALFORMED && used == 0);
            return 0;
        }
        require(used <= size - at);
        if (used > 0)
            read_one(&frame);
        at += used;
    }
    return 0;
}
