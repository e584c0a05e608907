// carrier.c: the carriers of this process, and those of a process that has none (see carrier.h).
#include <runtime/shm/carrier.h>

#include <runtime/base/error.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>

trp_carrier_choice trp_carriers = {.near = &trp_no_near_carrier, .far = &trp_no_carrier};

static bool nobody_lives(uint32_t process, uint64_t incarnation, char *cause)
{
    (void)process, (void)incarnation;
    if (cause != NULL)
        snprintf(cause, sizeof(trp_process_row){0}.cause, "has ended");
    return false;
}

static void describe_nobody(uint32_t process, char *text, size_t size)
{
    snprintf(text, size, "process %u of another node", process);
}

static void meet_nobody(uint32_t process)
{
    (void)process;
}

static troupe_status send_nothing(struct trp_peer *peer, uint32_t process, struct trp_frame *frame)
{
    (void)peer, (void)frame;
    return troupe_fail(TROUPE_NOT_EXECUTED, "%s cannot be reached: no carrier was chosen",
                       trp_process_text(process).text);
}

static void disconnect_nothing(struct trp_peer *peer, int linger_ms)
{
    (void)peer, (void)linger_ms;
}

static bool never(void)
{
    return false;
}

static bool read_nothing(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    (void)word, (void)seen, (void)deadline_ns;
    return false;
}

static bool wake_nobody(_Atomic uint32_t *word)
{
    (void)word;
    return false;
}

const trp_carrier trp_no_carrier = {
    .name = "none",
    .message_bytes_max = &trp_self.options.node_message_bytes_max,
    .limit = "between nodes: node_message_bytes_max",
    .alive = nobody_lives,
    .describe = describe_nobody,
    .meet = meet_nobody,
    .send = send_nothing,
    .disconnect = disconnect_nothing,
};

const trp_near_carrier trp_no_near_carrier = {
    .carrier = {.name = "none",
                .message_bytes_max = &trp_self.options.message_bytes_max,
                .limit = "message_bytes_max",
                .alive = trp_row_alive,
                .describe = trp_row_describe,
                .meet = meet_nobody,
                .send = send_nothing,
                .disconnect = disconnect_nothing},
    .unread = never,
    .read = read_nothing,
    .wake = wake_nobody,
};
