// track_batch.c: see track_batch.h.
#include <server/track_batch.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// The key of a name as JSON has it: what MLflow does not take becomes "_".
static void make_key(const char *before, const char *between, const char *name, size_t size,
                     char key[TRACK_KEY_MAX + 1])
{
    int used = before != NULL && before[0] != '\0'
                   ? snprintf(key, TRACK_KEY_MAX + 1, "%s%s", before, between)
                   : 0;
    size_t at = used < 0 ? 0 : (size_t)used > TRACK_KEY_MAX ? TRACK_KEY_MAX : (size_t)used;
    for (size_t i = 0; i < size && at < TRACK_KEY_MAX; i++)
        key[at++] = name[i];
    key[at] = '\0';
    for (char *c = key; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("_-. /", *c) == NULL)
            *c = '_';
}

// Without its quotes.
static void name_of(trp_json name, const char **text, size_t *size)
{
    bool quoted = name.size >= 2 && name.at[0] == '"';
    *text = quoted ? name.at + 1 : name.at;
    *size = quoted ? name.size - 2 : name.size;
}

void track_batch_metric(track_batch *batch, const char *source, trp_json name, double value,
                        double time, int step)
{
    char key[TRACK_KEY_MAX + 1];
    const char *text;
    size_t size;
    name_of(name, &text, &size);
    make_key(source, "/", text, size, key);
    trp_buffer_printf(&batch->metrics,
                      "%s{\"key\": \"%s\", \"value\": ", batch->metric_count > 0 ? ", " : "", key);
    trp_json_number(&batch->metrics, value);
    trp_buffer_printf(&batch->metrics, ", \"timestamp\": %.0f, \"step\": %d}", time * 1000, step);
    batch->metric_count++;
}

static void add_parameter(track_batch *batch, const char *key, trp_json value)
{
    char text[TRACK_VALUE_MAX + 1];
    bool quoted = trp_json_is_text(value);
    // An escape that is cut, or any at all, stays as it is written.
    size_t size = quoted ? value.size - 2 : value.size;
    (void)snprintf(text, sizeof text, "%.*s",
                   (int)(size < TRACK_VALUE_MAX ? size : TRACK_VALUE_MAX),
                   quoted ? value.at + 1 : value.at);
    trp_buffer_printf(&batch->parameters,
                      "%s{\"key\": \"%s\", \"value\": ", batch->parameter_count > 0 ? ", " : "",
                      key);
    trp_json_text(&batch->parameters, text);
    trp_buffer_append(&batch->parameters, "}", 1);
    batch->parameter_count++;
}

static void add_member(track_batch *batch, const char *before, trp_json name, trp_json value)
{
    char key[TRACK_KEY_MAX + 1];
    const char *text;
    size_t size;
    trp_json at = {0}, inner_name, inner;
    name_of(name, &text, &size);
    make_key(before, ".", text, size, key);
    if (!trp_json_is_object(value)) {
        add_parameter(batch, key, value);
        return;
    }
    while (batch->parameter_count < TRACK_BATCH_PARAMETERS &&
           trp_json_next_member(value, &at, &inner_name, &inner)) {
        char inner_key[TRACK_KEY_MAX + 1];
        name_of(inner_name, &text, &size);
        make_key(key, ".", text, size, inner_key);
        add_parameter(batch, inner_key, inner);
    }
}

bool track_batch_parameters(track_batch *batch, trp_json config, trp_json *at)
{
    trp_json name, value;
    if (!trp_json_is_object(config))
        return false;
    while (trp_json_next_member(config, at, &name, &value)) {
        add_member(batch, NULL, name, value);
        if (batch->parameter_count >= TRACK_BATCH_PARAMETERS / 2)
            return true;
    }
    return false;
}

const char *track_batch_end(track_batch *batch, const char *run)
{
    trp_buffer *out = &batch->body;
    trp_buffer_printf(out, "{\"run_id\": \"%s\", \"metrics\": [", run);
    if (batch->metrics.size > 0)
        trp_buffer_append(out, batch->metrics.data, batch->metrics.size);
    trp_buffer_printf(out, "], \"params\": [");
    if (batch->parameters.size > 0)
        trp_buffer_append(out, batch->parameters.data, batch->parameters.size);
    trp_buffer_append(out, "]}", 3);
    return out->failed || batch->metrics.failed || batch->parameters.failed ? NULL
                                                                            : (char *)out->data;
}

void track_batch_clear(track_batch *batch)
{
    trp_buffer_free(&batch->metrics);
    trp_buffer_free(&batch->parameters);
    trp_buffer_free(&batch->body);
    batch->metric_count = batch->parameter_count = 0;
}
