// actor_name.c: names of actors in the node's directory: [address, class name, class hash], packed.
// The process that has the actor owns the name, so the name ends with it.
#include <actors/actor/actor_name.h>

#include <actors/actor/actor.h>
#include <actors/actor/registrar_client.h>
#include <actors/actor/resolve.h>
#include <actors/actor/restart_in_place.h>
#include <actors/class/call_error.h>
#include <actors/sched/scheduler.h>
#include <actors/sched/wait_notes.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/node/directory_client.h>
#include <runtime/node/node_client.h>
#include <runtime/remote/cluster.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <troupe/node.h>

enum { CLASS_MAX = 128 }; // Of a class's name in the directory; longer ones are cut.

bool trp_actor_name(trp_actor *actor, troupe_error *failure)
{
    trp_actor_extra *extra = actor->extra;
    if (extra == NULL || extra->name == NULL)
        return true;
    const trp_class *class_ = actor->class_;
    char class_name[CLASS_MAX + 1] = "";
    strncat(class_name, class_->row->name, CLASS_MAX);
    trp_buffer value = {0};
    trp_write_array(&value, 5);
    trp_write_uint(&value, trp_actor_id(actor));
    trp_write_uint(&value, trp_home_here.incarnation);
    trp_write_uint(&value, trp_home_here.process);
    trp_write_text(&value, class_name);
    trp_write_uint(&value, class_->hash);
    troupe_status status = value.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a name")
                                        : trp_node_name_put(extra->name, value.data, value.size);
    trp_buffer_free(&value);
    extra->named = status == TROUPE_OK;
    extra->incarnation = trp_home_here.incarnation;
    if (!extra->named)
        *failure = trp_failure_last(status, TROUPE_OUTCOME_NOT_EXECUTED, TROUPE_EXECUTED_NO);
    return extra->named;
}

void trp_actor_unname(trp_actor *actor)
{
    trp_actor_extra *extra = actor->extra;
    if (extra == NULL || !extra->named)
        return;
    // A name ends with its process, and one of an earlier runtime has ended with that.
    if (!trp_process_ending() && extra->incarnation == trp_home_here.incarnation)
        trp_node_name_drop(extra->name);
    extra->named = false;
}

static troupe_status read_entry(const void *data, size_t size, troupe_actor *actor,
                                char class_name[CLASS_MAX + 1], uint64_t *hash)
{
    trp_reader in = trp_reader_of(data, size);
    uint32_t count;
    uint64_t process;
    const char *text;
    size_t text_size;
    TROUPE_TRY(trp_read_array(&in, &count));
    TROUPE_TRY(trp_read_uint(&in, &actor->id));
    TROUPE_TRY(trp_read_uint(&in, &actor->incarnation));
    TROUPE_TRY(trp_read_uint(&in, &process));
    TROUPE_TRY(trp_read_text(&in, &text, &text_size));
    TROUPE_TRY(trp_read_uint(&in, hash));
    if (count != 5 || process >= TRP_PROCESSES_MAX || text == NULL || text_size > CLASS_MAX)
        return troupe_fail(TROUPE_MALFORMED, "an entry of the directory of names is damaged");
    actor->process = (uint32_t)process;
    memcpy(class_name, text, text_size);
    class_name[text_size] = '\0';
    return TROUPE_OK;
}

// An actor that is being started again keeps its name; the directory gets it back with the actor.
static troupe_status find_restarting(const troupe_class *class_, const char *name,
                                     troupe_actor *actor)
{
    char class_name[CLASS_MAX + 1];
    troupe_actor found;
    if (trp_registrar_find_name(name, &found, class_name) != TROUPE_OK)
        return troupe_fail(TROUPE_NOT_FOUND, "no actor has the name '%s'", name);
    if (class_ != NULL && strcmp(class_->name, class_name) != 0)
        return troupe_fail(TROUPE_WRONG_TYPE, "actor '%s' is of class '%s', not '%s'", name,
                           class_name, class_->name);
    *actor = found;
    return TROUPE_OK;
}

// Asks the nodes that are joined, or the one of them that listens at `address` (NULL: all). Where
// none has it and a session ended before the answer, that is not known: TROUPE_NOT_EXECUTED.
static troupe_status ask_others(const char *name, const char *address, unsigned char *value,
                                size_t *size, uint32_t *node)
{
    uint32_t nodes[TRP_NODES_MAX];
    size_t count = trp_node_joined(address, nodes, TRP_NODES_MAX), silent = 0;
    if (address != NULL && count == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no session with a node at '%.64s'", address);
    for (size_t i = 0; i < count; i++) {
        trp_wait_for(TRP_WAIT_NODE, 0, 0);
        TROUPE_TRY(trp_scheduler_block());
        troupe_status status = trp_node_name_get_far(nodes[i], name, value, size);
        trp_scheduler_unblock();
        *node = nodes[i];
        if (status != TROUPE_NOT_FOUND && status != TROUPE_NOT_EXECUTED)
            return status;
        silent += status == TROUPE_NOT_EXECUTED;
    }
    if (silent > 0)
        return troupe_fail(TROUPE_NOT_EXECUTED,
                           "whether an actor has the name '%s' is not known: of %zu joined nodes "
                           "the sessions with %zu ended before they answered",
                           name, count, silent);
    return troupe_fail(TROUPE_NOT_FOUND, "no actor has the name '%s' here or at %zu joined nodes",
                       name, count);
}

// "name", or "name@host:port".
static troupe_status find_entry(const char *name, unsigned char *value, size_t *size,
                                uint32_t *node)
{
    char bare[TRP_NAME_MAX + 1];
    const char *at = name != NULL ? strchr(name, '@') : NULL;
    *node = 0;
    if (at != NULL && strcmp(at + 1, troupe_node_address()) != 0) {
        snprintf(bare, sizeof bare, "%.*s",
                 at - name < TRP_NAME_MAX ? (int)(at - name) : TRP_NAME_MAX, name);
        return ask_others(bare, at + 1, value, size, node);
    }
    if (at != NULL) {
        snprintf(bare, sizeof bare, "%.*s",
                 at - name < TRP_NAME_MAX ? (int)(at - name) : TRP_NAME_MAX, name);
        name = bare;
    }
    troupe_status status = trp_node_name_get(name, value, size);
    uint32_t any;
    if (status != TROUPE_NOT_FOUND || at != NULL || trp_node_joined(NULL, &any, 1) == 0)
        return status;
    return ask_others(name, NULL, value, size, node);
}

troupe_status troupe_lookup_as(const troupe_class *class_, const char *name, troupe_actor *actor)
{
    TRP_REQUIRE(name);
    TRP_REQUIRE(actor);
    unsigned char value[TRP_NAMED_VALUE_MAX];
    char class_name[CLASS_MAX + 1];
    size_t size;
    uint64_t hash;
    troupe_actor found = {0};
    TROUPE_TRY(trp_process_check());
    troupe_status status = find_entry(name, value, &size, &found.node);
    if (status == TROUPE_NOT_FOUND && trp_registrar_known())
        return trp_error_settled(find_restarting(class_, name, actor));
    TROUPE_TRY(status);
    TROUPE_TRY(read_entry(value, size, &found, class_name, &hash));
    if (class_ != NULL) {
        const trp_class *wanted = trp_class_of(class_);
        if (wanted == NULL)
            return troupe_last_error()->status;
        if (wanted->hash != hash)
            return troupe_fail(
                TROUPE_WRONG_TYPE, "actor '%s' is of class '%s'%s, not '%s'", name, class_name,
                strcmp(class_name, class_->name) == 0 ? " with other methods" : "", class_->name);
    }
    troupe_actor near = found;
    TROUPE_TRY(trp_actor_near(&near)); // So that the first message need not ask for the way.
    *actor = found;
    return trp_error_settled(TROUPE_OK);
}
