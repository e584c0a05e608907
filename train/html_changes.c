// html_changes.c: what was asked of a run while it was there, in its report: pauses, other numbers
// of ranks, and live values. Read from the journal, and as rows between its attempts.
#include <train/html_page.h>

#include <runtime/text/html_text.h>
#include <stdio.h>
#include <string.h>

// ---- facts

static trp_facts_change *add(trp_facts *facts, trp_change_kind kind)
{
    trp_facts_change *row = &facts->change_ring[facts->changes++ % TRP_FACTS_CHANGES];
    *row = (trp_facts_change){.kind = kind,
                              .before = facts->attempts,
                              .report = facts->reports,
                              .elapsed_s = facts->elapsed_s};
    return row;
}

void trp_facts_take_pause(trp_facts *facts)
{
    (void)add(facts, TRP_CHANGE_PAUSE);
}

void trp_facts_take_ranks(trp_facts *facts, int ranks)
{
    add(facts, TRP_CHANGE_RANKS)->ranks = ranks;
}

void trp_facts_take_wish(trp_facts *facts, int64_t revision, const char *member, trp_json value)
{
    trp_facts_change *row = add(facts, TRP_CHANGE_VALUE);
    row->revision = revision;
    size_t used = (size_t)snprintf(row->text, sizeof row->text, "%.80s = ", member);
    bool cut = value.size >= sizeof row->text - used - 4;
    size_t size = cut ? sizeof row->text - used - 4 : value.size;
    snprintf(row->text + used, sizeof row->text - used, "%.*s%s", (int)size, value.at,
             cut ? "..." : "");
}

void trp_facts_take_live(trp_facts *facts, int64_t revision, int report)
{
    uint64_t kept = facts->changes < TRP_FACTS_CHANGES ? facts->changes : TRP_FACTS_CHANGES;
    for (uint64_t i = facts->changes - kept; i < facts->changes; i++) {
        trp_facts_change *row = &facts->change_ring[i % TRP_FACTS_CHANGES];
        if (row->kind != TRP_CHANGE_VALUE || row->counts || row->revision > revision)
            continue;
        row->counts = true;
        row->report = report;
        row->elapsed_s = facts->elapsed_s;
    }
}

// ---- rows

static void write_change(const trp_facts_change *row, trp_buffer *out)
{
    static const char *const words[] = {"paused", "resized", "modified"};
    trp_buffer_printf(out, "<tr><th scope=\"row\" class=\"n\"></th><td class=\"nw\"><small>after ");
    trp_html_duration(out, row->elapsed_s);
    trp_buffer_printf(out,
                      "</small></td><td class=\"why\" colspan=\"4\"><span class=\"tag go\">%s"
                      "</span>",
                      words[row->kind]);
    if (row->kind == TRP_CHANGE_PAUSE) {
        trp_buffer_printf(out, "after report %d", row->report);
    } else if (row->kind == TRP_CHANGE_RANKS) {
        trp_buffer_printf(out, "to %d rank%s after report %d", row->ranks,
                          row->ranks == 1 ? "" : "s", row->report);
    } else {
        trp_buffer_printf(out, "<code>");
        trp_html_text(out, row->text);
        trp_buffer_printf(out,
                          row->counts ? "</code> since report %d"
                                      : "</code> asked for after report %d, not in effect",
                          row->counts ? row->report + 1 : row->report);
    }
    trp_buffer_printf(out, "</td></tr>\n");
}

void trp_html_changes(const trp_facts *facts, uint64_t before, trp_buffer *out)
{
    uint64_t kept = facts->changes < TRP_FACTS_CHANGES ? facts->changes : TRP_FACTS_CHANGES;
    for (uint64_t i = facts->changes - kept; i < facts->changes; i++) {
        const trp_facts_change *row = &facts->change_ring[i % TRP_FACTS_CHANGES];
        if (row->before == before)
            write_change(row, out);
    }
}
