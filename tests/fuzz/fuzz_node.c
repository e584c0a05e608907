// fuzz_node.c: any bytes as requests to the node process: names, processes, claims on resources. A
// request is its kind, what it is about, the body's size, and the body. The accounts must balance
// in the end (runtime/node/resource_ledger.c asserts it for each claim).
#include <runtime/link/request.h>
#include <runtime/node/server.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

// One process for all, which needs no keeper and no node process.
static void begin(void)
{
    static bool begun;
    if (begun)
        return;
    begun = true;
    require(trp_segment_create(8 << 20) == TROUPE_OK);
    trp_self.slot = TRP_PROCESS_DRIVER;
    trp_self.incarnation = 4711;
    trp_self.local = true;
    trp_node_reset_here();
    trp_self.options.cpus = 4;
    trp_self.options.gpus = 2;
    trp_self.options.memory_bytes = 1 << 20;
    trp_self.options.resources = "license=2,seat=0.5";
    trp_segment_process(TRP_PROCESS_DRIVER)->incarnation = trp_self.incarnation;
    trp_process_gate_open();
    trp_process_row_set(TRP_PROCESS_DRIVER, TRP_PROCESS_READY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEADER = 3 };
    begin();
    while (size >= HEADER) {
        size_t body = data[2] <= size - HEADER ? data[2] : size - HEADER;
        trp_frame frame = {.kind = TRP_FRAME_ASK,
                           .method = data[0] % 12,
                           .target = data[1] % 16,
                           .schema = data[1] / 16 == 0 ? trp_self.incarnation : data[1] / 16,
                           .call = data[0] / 12,
                           .body = data + HEADER,
                           .body_size = body};
        (void)trp_request_send(&frame);
        data += HEADER + body;
        size -= HEADER + body;
    }
    trp_request_here.tick();
    trp_node_reset_here();
    return 0;
}
