// option_table.c: what is made of the list of a run's options, but for describing them.
#include <runtime/base/error.h>
#include <string.h>
#include <train/option_table.h>

#define COPY_SAVED(to, from, member) (to).member = (from)->member;
#define COPY_PLACED(to, from, member) (to).member = (from)->member;
#define COPY_SECRET(to, from, member) (to).member = (from)->member;
#define COPY_BESIDE(to, from, member)
#define FILE_SAVED(to, from, member) (to).member = (from)->member;
#define FILE_PLACED(to, from, member)
#define FILE_SECRET(to, from, member)
#define FILE_BESIDE(to, from, member)

trp_packed_options trp_options_pack(const troupe_train_options *options)
{
    trp_packed_options packed = {0};
#define ROW(type, member, shape, kept, normal) COPY_##kept(packed, options, member)
    TRP_OPTION_TABLE(ROW)
#undef ROW
    return packed;
}

troupe_train_options trp_options_unpack(const trp_packed_options *packed)
{
    troupe_train_options options = {.size = sizeof options};
#define ROW(type, member, shape, kept, normal) COPY_##kept(options, packed, member)
    TRP_OPTION_TABLE(ROW)
#undef ROW
    return options;
}

trp_saved_options trp_options_save(const troupe_train_options *options)
{
    trp_saved_options saved = {0};
#define ROW(type, member, shape, kept, normal) FILE_##kept(saved, options, member)
    TRP_OPTION_TABLE(ROW)
#undef ROW
    return saved;
}

#define MERGE_SAVED(member)                                                                        \
    if (options->member == 0)                                                                      \
        options->member = found.member;
#define MERGE_PLACED(member)
#define MERGE_SECRET(member)
#define MERGE_BESIDE(member)

void trp_options_merge(troupe_train_options *options, const trp_saved_options *saved)
{
    trp_saved_options found = *saved;
    // The two belong together.
    if (options->keep_metric != NULL || options->keep_goal != TROUPE_GOAL_NONE ||
        found.keep_metric == NULL) {
        found.keep_metric = NULL;
        found.keep_goal = TROUPE_GOAL_NONE;
    }
#define ROW(type, member, shape, kept, normal) MERGE_##kept(member)
    TRP_OPTION_TABLE(ROW)
#undef ROW
}

static troupe_status keep_text(const char **text, trp_arena *arena)
{
    if (*text == NULL)
        return TROUPE_OK;
    char *copy = trp_arena_alloc(arena, strlen(*text) + 1);
    if (copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the options of a run");
    *text = strcpy(copy, *text);
    return TROUPE_OK;
}

#define KEEP_WHOLE(member)
#define KEEP_REAL(member)
#define KEEP_SIZE(member)
#define KEEP_GOAL(member)
#define KEEP_OPEN(member)
#define KEEP_FLAG(member)
#define KEEP_CONSOLE(member)
#define KEEP_SERVER(member)
#define KEEP_SYNC(member)
#define KEEP_PLAIN(member)
#define KEEP_POINTER(member)
#define KEEP_TEXT(member) TROUPE_TRY(keep_text(&options->member, arena));
#define KEEP_HIDDEN(member) KEEP_TEXT(member)

troupe_status trp_options_keep(troupe_train_options *options, trp_arena *arena)
{
#define ROW(type, member, shape, kept, normal) KEEP_##shape(member)
    TRP_OPTION_TABLE(ROW)
#undef ROW
    return TROUPE_OK;
}

static bool texts_differ(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one != other : strcmp(one, other) != 0;
}

#define DIFFER_int(member) (one->member != other->member)
#define DIFFER_double(member) (one->member != other->member)
#define DIFFER_size_t(member) (one->member != other->member)
#define DIFFER__Bool(member) (one->member != other->member)
#define DIFFER_troupe_text(member) texts_differ(one->member, other->member)
#define DIFFER_(member) false

const char *trp_options_differ(const trp_packed_options *one, const trp_packed_options *other)
{
#define COMPARE(type, member)                                                                      \
    if (DIFFER_##type(member))                                                                     \
        return #member;
#define ROW(type, member, shape, kept, normal) COMPARE(type, member)
    TRP_OPTION_TABLE(ROW)
#undef ROW
    return NULL;
}
