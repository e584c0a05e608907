// report_event.c: see report_event.h.
#include <train/report_event.h>

#include <string.h>
#include <train/reports.h>

// ---- copies

static size_t text_size(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

static size_t metrics_size(const troupe_metric *metrics, size_t count)
{
    size_t size = count * sizeof *metrics;
    for (size_t i = 0; i < count; i++)
        size += text_size(metrics[i].name);
    return size;
}

size_t trp_report_event_size(const troupe_report_event *event)
{
    size_t size = metrics_size(event->metrics, event->count) + text_size(event->source) +
                  text_size(event->checkpoint) + event->rank_count * sizeof *event->ranks;
    for (size_t i = 0; i < event->rank_count; i++)
        size += metrics_size(event->ranks[i].metrics, event->ranks[i].count);
    return size;
}

// What is left of a copy's room: what has to be aligned in front, texts behind it.
typedef struct room {
    char *front, *texts;
} room;

static const char *copy_text(room *left, const char *text)
{
    if (text == NULL)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = memcpy(left->texts, text, size);
    left->texts += size;
    return copy;
}

static const troupe_metric *copy_metrics(room *left, const troupe_metric *metrics, size_t count)
{
    troupe_metric *copy = (troupe_metric *)(void *)left->front;
    left->front += count * sizeof *copy;
    for (size_t i = 0; i < count; i++)
        copy[i] = (troupe_metric){copy_text(left, metrics[i].name), metrics[i].value};
    return copy;
}

troupe_report_event trp_report_event_copy(const troupe_report_event *event, void *at)
{
    size_t count = event->count;
    for (size_t i = 0; i < event->rank_count; i++)
        count += event->ranks[i].count;
    troupe_rank_metrics *ranks = at;
    room left = {.front = (char *)(ranks + event->rank_count)};
    left.texts = left.front + count * sizeof(troupe_metric);
    troupe_report_event copy = *event;
    copy.metrics = copy_metrics(&left, event->metrics, event->count);
    for (size_t i = 0; i < event->rank_count; i++)
        ranks[i] = (troupe_rank_metrics){
            copy_metrics(&left, event->ranks[i].metrics, event->ranks[i].count),
            event->ranks[i].count};
    copy.ranks = event->rank_count > 0 ? ranks : NULL;
    copy.source = copy_text(&left, event->source);
    copy.checkpoint = copy_text(&left, event->checkpoint);
    return copy;
}

// ---- as JSON

static void write_metrics(trp_buffer *out, const troupe_metric *metrics, size_t count)
{
    trp_buffer_append(out, "{", 1);
    for (size_t i = 0; i < count; i++) {
        trp_buffer_append(out, ", ", i > 0 ? 2 : 0);
        trp_json_text(out, metrics[i].name);
        trp_buffer_append(out, ": ", 2);
        trp_json_number(out, metrics[i].value);
    }
    trp_buffer_append(out, "}", 1);
}

void trp_report_event_write(const troupe_report_event *event, trp_buffer *out)
{
    if (event->source != NULL && event->source[0] != '\0') {
        trp_buffer_printf(out, "\"source\": ");
        trp_json_text(out, event->source);
        trp_buffer_append(out, ", ", 2);
    }
    trp_buffer_printf(out, "\"metrics\": ");
    write_metrics(out, event->metrics, event->count);
    if (event->rank_count == 0)
        return;
    trp_buffer_printf(out, ", \"ranks\": [");
    for (size_t i = 0; i < event->rank_count; i++) {
        trp_buffer_append(out, ", ", i > 0 ? 2 : 0);
        write_metrics(out, event->ranks[i].metrics, event->ranks[i].count);
    }
    trp_buffer_append(out, "]", 1);
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a report");
}

static troupe_status read_metrics(trp_json object, trp_arena *arena, const troupe_metric **metrics,
                                  size_t *count)
{
    trp_json at = {0}, name, value;
    size_t most = 0;
    while (most < TRP_METRICS_MAX && trp_json_next_member(object, &at, &name, &value))
        most++;
    troupe_metric *made = trp_arena_alloc(arena, (most + 1) * sizeof *made);
    if (made == NULL)
        return no_memory();
    at = (trp_json){0};
    *metrics = made;
    for (*count = 0; *count < most; ++*count) {
        troupe_metric *metric = &made[*count];
        (void)trp_json_next_member(object, &at, &name, &value);
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, name, arena, &metric->name));
        TROUPE_TRY(trp_json_read(&troupe_type_double, value, arena, &metric->value));
    }
    return TROUPE_OK;
}

static troupe_status read_ranks(trp_json array, trp_arena *arena, troupe_report_event *event)
{
    trp_json item = {0};
    size_t count = 0;
    while (trp_json_next_item(array, &item))
        count++;
    troupe_rank_metrics *ranks = trp_arena_alloc(arena, (count + 1) * sizeof *ranks);
    if (ranks == NULL)
        return no_memory();
    event->ranks = ranks;
    item = (trp_json){0};
    for (; event->rank_count < count; event->rank_count++) {
        troupe_rank_metrics *rank = &ranks[event->rank_count];
        (void)trp_json_next_item(array, &item);
        TROUPE_TRY(read_metrics(item, arena, &rank->metrics, &rank->count));
    }
    return TROUPE_OK;
}

troupe_status trp_report_event_read(trp_json line, trp_arena *arena, troupe_report_event *event)
{
    trp_json member = {0};
    event->source = NULL;
    event->metrics = NULL;
    event->ranks = NULL;
    event->count = event->rank_count = 0;
    if (trp_json_member(line, "source", &member))
        TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, member, arena, &event->source));
    if (event->source == NULL)
        event->source = "";
    if (trp_json_member(line, "metrics", &member))
        TROUPE_TRY(read_metrics(member, arena, &event->metrics, &event->count));
    return trp_json_member(line, "ranks", &member) ? read_ranks(member, arena, event) : TROUPE_OK;
}
