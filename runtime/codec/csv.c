// csv.c: see csv.h.
#include <runtime/codec/csv.h>

#include <math.h>
#include <runtime/codec/json.h>
#include <string.h>

void trp_csv_text(trp_buffer *out, const char *text)
{
    if (text[0] != '\0' && strpbrk(text, ",\"\r\n") == NULL) {
        trp_buffer_append(out, text, strlen(text));
        return;
    }
    trp_buffer_append(out, "\"", 1);
    for (; *text != '\0'; text++)
        trp_buffer_append(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    trp_buffer_append(out, "\"", 1);
}

void trp_csv_number(trp_buffer *out, double value)
{
    if (isnan(value))
        trp_buffer_append(out, "nan", 3);
    else if (isinf(value))
        trp_buffer_printf(out, "%s", value > 0 ? "inf" : "-inf");
    else
        trp_json_number(out, value);
}
