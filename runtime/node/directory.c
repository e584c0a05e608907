// directory.c: see node/directory.h.
#include <runtime/node/directory.h>

#include <runtime/base/hash.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/link/ask.h>
#include <runtime/link/request.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>

typedef struct name_entry {
    char name[TRP_NAME_MAX + 1];
    uint32_t owner;
    uint64_t owner_incarnation;
    uint64_t request; // Of the owner, that put it.
    size_t size;
    unsigned char value[TRP_NAMED_VALUE_MAX];
    UT_hash_handle hh;
} name_entry;

static name_entry *names;

static void name_remove(name_entry *entry)
{
    HASH_DEL(names, entry);
    trp_free(entry);
}

static troupe_status name_put(const trp_frame *frame, const char *name, const void *value,
                              size_t size)
{
    name_entry *entry;
    HASH_FIND_STR(names, name, entry);
    if (entry != NULL)
        return troupe_fail(TROUPE_EXISTS,
                           "the name '%s' is taken by an actor of process %u (pid %d)", name,
                           entry->owner, trp_process_pid(entry->owner));
    entry = trp_alloc(sizeof *entry);
    if (entry == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the name '%s'", name);
    strcpy(entry->name, name);
    entry->owner = frame->from;
    entry->owner_incarnation = frame->from_incarnation;
    entry->request = frame->call;
    entry->size = size;
    memcpy(entry->value, value, size);
    TRP_HASH_ADD(hh, names, name[0], strlen(entry->name), entry);
    if (TRP_HASH_HAS(hh, entry))
        return TROUPE_OK;
    trp_free(entry);
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the name '%s'", name);
}

static troupe_status read_name(const trp_frame *frame, char name[TRP_NAME_MAX + 1],
                               const void **value, size_t *size)
{
    trp_reader in = trp_reader_of(frame->body, frame->body_size);
    uint32_t count;
    const char *text;
    size_t text_size;
    TROUPE_TRY(trp_read_array(&in, &count));
    TROUPE_TRY(trp_read_text(&in, &text, &text_size));
    TROUPE_TRY(trp_read_bytes(&in, value, size));
    if (count != 2 || text == NULL || text_size > TRP_NAME_MAX || *size > TRP_NAMED_VALUE_MAX)
        return troupe_fail(TROUPE_MALFORMED, "a request about a name is malformed");
    memcpy(name, text, text_size);
    name[text_size] = '\0';
    return TROUPE_OK;
}

void trp_names_serve(const trp_frame *frame)
{
    char name[TRP_NAME_MAX + 1];
    const void *value;
    size_t size;
    name_entry *entry = NULL;
    troupe_status status = read_name(frame, name, &value, &size);
    if (status == TROUPE_OK && frame->method == TRP_ASK_NAME_PUT)
        status = name_put(frame, name, value, size);
    else if (status == TROUPE_OK)
        HASH_FIND_STR(names, name, entry);
    if (status != TROUPE_OK) {
        trp_request_refuse(frame, status);
    } else if (frame->method == TRP_ASK_NAME_PUT) {
        trp_request_answer(frame, &(trp_frame){.status = TROUPE_OK});
    } else if (frame->method == TRP_ASK_NAME_DROP) {
        if (entry != NULL && entry->owner == frame->from &&
            entry->owner_incarnation == frame->from_incarnation &&
            (frame->target == 0 || frame->target == entry->request))
            name_remove(entry);
        trp_request_answer(frame, &(trp_frame){.status = TROUPE_OK});
    } else if (entry == NULL) {
        trp_request_refuse(frame,
                           troupe_fail(TROUPE_NOT_FOUND, "no actor has the name '%s'", name));
    } else {
        trp_request_answer(
            frame,
            &(trp_frame){.status = TROUPE_OK, .body = entry->value, .body_size = entry->size});
    }
}

void trp_names_bury(uint32_t slot, uint64_t incarnation)
{
    name_entry *entry, *after;
    HASH_ITER(hh, names, entry, after)
    if (entry->owner == slot && entry->owner_incarnation == incarnation)
        name_remove(entry);
}

void trp_names_clear(void)
{
    name_entry *entry, *after;
    HASH_ITER(hh, names, entry, after)
    name_remove(entry);
}
