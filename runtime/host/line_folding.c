// line_folding.c: lines of several processes that say the same (see host/line_folding.h).
#include <runtime/host/line_folding.h>

#include <ctype.h>
#include <runtime/base/memory.h>
#include <string.h>

enum { LABEL_MAX = 96 };

typedef struct pattern {
    bool used, several; // `several`: lines of more than one process say it; they are kept back.
    bool mixed;         // What has been kept back is of more than one process.
    bool to_stderr;
    bool of_ranks;         // All that has been kept back is.
    bool loose;            // Lines that differ in numbers only are the same here.
    uint64_t hash, source; // Unless `several`: the process that says it.
    int64_t began_ms;
    uint64_t kept;          // Lines that were kept back since then; `text` is the newest.
    uint64_t newest_source; // Of that one.
    size_t size;
    char label[LABEL_MAX], text[TRP_FOLD_LINE_MAX];
} pattern;

struct trp_fold {
    trp_fold_print print;
    bool numbers;
    pattern patterns[TRP_FOLD_PATTERNS];
};

trp_fold *trp_fold_create(trp_fold_print print, bool numbers)
{
    trp_fold *fold = trp_alloc(sizeof *fold);
    if (fold != NULL) {
        fold->print = print;
        fold->numbers = numbers;
    }
    return fold;
}

void trp_fold_destroy(trp_fold *fold)
{
    trp_free(fold);
}

static bool is_librarys(const trp_fold_line *line)
{
    static const char begin[] = "troupe: ";
    return line->to_stderr && line->size >= sizeof begin - 1 &&
           memcmp(line->text, begin, sizeof begin - 1) == 0;
}

// The next character that counts: where `loose`, any run of digits counts as one '0'. -1 at the
// end.
static int next_character(const char *text, size_t size, bool loose, size_t *at)
{
    if (*at == size)
        return -1;
    int character = (unsigned char)text[(*at)++];
    if (!loose || !isdigit(character))
        return character;
    while (*at < size && isdigit((unsigned char)text[*at]))
        (*at)++;
    return '0';
}

static uint64_t hash_of(const trp_fold_line *line, bool loose)
{
    uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
    size_t at = 0;
    for (int c; (c = next_character(line->text, line->size, loose, &at)) >= 0;)
        hash = (hash ^ (uint64_t)c) * 0x100000001b3u;
    return hash;
}

static bool says_the_same(const pattern *known, const trp_fold_line *line, bool loose,
                          uint64_t hash)
{
    if (!known->used || known->hash != hash || known->to_stderr != line->to_stderr ||
        known->loose != loose)
        return false;
    size_t a = 0, b = 0;
    for (;;) {
        int mine = next_character(known->text, known->size, loose, &a);
        if (mine != next_character(line->text, line->size, loose, &b))
            return false;
        if (mine < 0)
            return true;
    }
}

static void note(pattern *known, const trp_fold_line *line)
{
    known->size = line->size;
    known->of_ranks = line->of_rank && (known->kept == 0 || known->of_ranks);
    known->newest_source = line->source;
    memcpy(known->text, line->text, line->size);
    size_t size = strnlen(line->label, LABEL_MAX - 1);
    memcpy(known->label, line->label, size);
    known->label[size] = '\0';
}

// Prints what the pattern has kept back.
static void print_kept(trp_fold *fold, pattern *known)
{
    if (known->kept > 0)
        fold->print(&(trp_fold_line){.source = known->newest_source,
                                     .to_stderr = known->to_stderr,
                                     .of_rank = known->of_ranks,
                                     .label = known->label,
                                     .text = known->text,
                                     .size = known->size},
                    known->kept > 1 ? known->kept : 0);
    known->kept = 0;
}

void trp_fold_take(trp_fold *fold, const trp_fold_line *line, int64_t now_ms)
{
    if (line->size > TRP_FOLD_LINE_MAX || line->size == 0) {
        fold->print(line, 0);
        return;
    }
    bool loose = fold->numbers || is_librarys(line);
    uint64_t hash = hash_of(line, loose);
    pattern *place = &fold->patterns[0]; // A free one, or else the oldest.
    for (pattern *it = fold->patterns; it < fold->patterns + TRP_FOLD_PATTERNS; it++) {
        if (says_the_same(it, line, loose, hash)) {
            it->several = it->several || it->source != line->source;
            if (!it->several) {
                fold->print(line, 0);
                return;
            }
            it->mixed = it->kept > 0 && (it->mixed || it->newest_source != line->source);
            note(it, line);
            it->kept++;
            return;
        }
        if (place->used && (!it->used || it->began_ms < place->began_ms))
            place = it;
    }
    if (place->used)
        print_kept(fold, place);
    *place = (pattern){.used = true,
                       .hash = hash,
                       .loose = loose,
                       .to_stderr = line->to_stderr,
                       .source = line->source,
                       .began_ms = now_ms};
    note(place, line);
    fold->print(line, 0);
}

int64_t trp_fold_end_windows(trp_fold *fold, int64_t now_ms, bool all)
{
    int64_t next = -1;
    for (pattern *it = fold->patterns; it < fold->patterns + TRP_FOLD_PATTERNS; it++) {
        if (!it->used)
            continue;
        int64_t due = it->began_ms + TRP_FOLD_WINDOW_MS;
        if (due <= now_ms || all) {
            // What goes on to be repeated goes on to be counted; what has fallen silent is new when
            // it comes again.
            it->used = it->kept > 0 && !all;
            if (!it->mixed) { // Whoever goes on alone is printed at once again.
                it->several = false;
                it->source = it->newest_source;
            }
            it->mixed = false;
            print_kept(fold, it);
            it->began_ms = now_ms;
            due = now_ms + TRP_FOLD_WINDOW_MS;
        }
        if (it->used && (next < 0 || due < next))
            next = due;
    }
    return next;
}
