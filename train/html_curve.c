// html_curve.c: see html_curve.h.
#include <train/html_curve.h>

#include <math.h>
#include <runtime/text/html_text.h>
#include <stdio.h>
#include <string.h>

static const double value_max = 1e300; // So that differences of values are numbers.

// ---- series

void trp_series_begin(trp_series *series, double width)
{
    *series = (trp_series){.width = width};
}

static void merge(trp_slot *into, const trp_slot *next)
{
    bool empty = into->count + into->odd == 0;
    if (next->count + next->odd == 0)
        return;
    if (empty || next->from < into->from)
        into->from = next->from;
    if (empty || next->to > into->to)
        into->to = next->to;
    if (next->count > 0 && (into->count == 0 || next->low < into->low))
        into->low = next->low;
    if (next->count > 0 && (into->count == 0 || next->high > into->high))
        into->high = next->high;
    into->sum += next->sum;
    into->count += next->count;
    into->odd += next->odd;
    into->spread = into->spread || next->spread;
}

// Each two slots become one.
static void halve(trp_series *series)
{
    for (size_t i = 0; i < TRP_SLOTS; i++) {
        trp_slot slot = series->slots[i];
        series->slots[i] = (trp_slot){0};
        merge(&series->slots[i / 2], &slot);
    }
    series->used = (series->used + 1) / 2;
    series->width *= 2;
}

void trp_series_add(trp_series *series, double at, double value)
{
    bool odd = !(fabs(value) <= value_max);
    trp_slot one = {.from = at, .to = at, .count = !odd, .odd = odd};
    if (!(at >= 0 && at <= 1e15))
        return;
    if (!odd)
        one.sum = one.low = one.high = value;
    while (at / series->width >= TRP_SLOTS)
        halve(series);
    size_t index = (size_t)(at / series->width);
    merge(&series->slots[index], &one);
    if (index >= series->used)
        series->used = index + 1;
}

void trp_series_widen(trp_series *series, double at, double value)
{
    size_t index = (size_t)(at / series->width);
    trp_slot *slot = index < series->used ? &series->slots[index] : NULL;
    if (slot == NULL || slot->count == 0 || !(fabs(value) <= value_max))
        return;
    slot->spread = true;
    slot->low = value < slot->low ? value : slot->low;
    slot->high = value > slot->high ? value : slot->high;
}

bool trp_series_range(const trp_series *series, double *low, double *high)
{
    bool found = false;
    for (size_t i = 0; i < series->used; i++) {
        const trp_slot *slot = &series->slots[i];
        if (slot->count == 0)
            continue;
        *low = found && *low < slot->low ? *low : slot->low;
        *high = found && *high > slot->high ? *high : slot->high;
        found = true;
    }
    return found;
}

static double mean_of(const trp_slot *slot)
{
    double mean = slot->sum / slot->count; // The sum of large ones may be none.
    return mean >= slot->low && mean <= slot->high ? mean : slot->low;
}

// ---- scales

typedef struct scale {
    double low, high;
    bool log; // `low` and `high` are logarithms.
} scale;

bool trp_curve_has_log(const trp_series *series)
{
    double low, high;
    return trp_series_range(series, &low, &high) && low > 0 && log10(high) - log10(low) >= 1;
}

static scale scale_of(const trp_curve *curve)
{
    scale of = {0, 1, curve->log};
    if (!trp_series_range(curve->series, &of.low, &of.high))
        return of;
    if (of.log) {
        of.low = log10(of.low);
        of.high = log10(of.high);
    }
    double room = (of.high - of.low) * 0.04;
    if (room <= fabs(of.high) * 1e-12) // All are alike.
        room = of.high != 0 ? fabs(of.high) * 0.1 : 1;
    of.low -= room;
    of.high += room;
    return of;
}

static double y_of(const scale *of, double value)
{
    double at = of->log ? log10(value) : value;
    return TRP_PLOT_TOP + TRP_PLOT_HEIGHT * (of->high - at) / (of->high - of->low);
}

static double x_of(const trp_axis *axis, double at)
{
    double span = axis->to - axis->from;
    return TRP_PLOT_LEFT +
           (span > 0 ? TRP_PLOT_WIDTH * (at - axis->from) / span : TRP_PLOT_WIDTH / 2.0);
}

// The least of 1, 2, 5, 10, ... that divides `span` into at most `parts`.
static double step_of(double span, double parts)
{
    double rough = span / parts, ten = pow(10, floor(log10(rough)));
    double of = rough / ten;
    return ten * (of <= 1 ? 1 : of <= 2 ? 2 : of <= 5 ? 5 : 10);
}

static double time_step_of(double span, double parts)
{
    static const double steps[] = {60,   120,   300,   600,   900,   1800,  3600,
                                   7200, 10800, 21600, 43200, 86400, 172800};
    if (span / parts <= 30)
        return step_of(span, parts);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (span / parts <= steps[i])
            return steps[i];
    return 86400 * step_of(span / 86400, parts);
}

// ---- parts of the drawing

static void line(trp_buffer *out, const char *kind, double x1, double y1, double x2, double y2)
{
    trp_buffer_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                      kind, x1, y1, x2, y2);
}

static void label_y(trp_buffer *out, double y, double value, double step)
{
    line(out, "grid", TRP_PLOT_LEFT, y, TRP_PLOT_LEFT + TRP_PLOT_WIDTH, y);
    trp_buffer_printf(out, "<text class=\"y\" x=\"%d\" y=\"%.1f\">", TRP_PLOT_LEFT - 7, y + 4);
    trp_html_number(out, fabs(value) < step * 1e-9 ? 0 : value);
    trp_buffer_printf(out, "</text>\n");
}

static void draw_y_axis(const scale *of, trp_buffer *out)
{
    double step = step_of(of->high - of->low, 6);
    if (of->log && step < 1) // Not a decade a step: 1, 2 and 5 of each.
        step = 1;
    double first = ceil(of->low / step), at;
    for (int i = 0; (at = (first + i) * step) <= of->high; i++) {
        if (at + step == at) // They differ less than numbers can.
            return;
        double value = of->log ? pow(10, at) : at;
        label_y(out, y_of(of, value), value, of->log ? 0 : step);
        for (int part = 2; of->log && step <= 1 && of->high - of->low < 2.2 && part <= 5; part += 3)
            if (log10(part * value) <= of->high)
                label_y(out, y_of(of, part * value), part * value, 0);
    }
}

static void label_time(trp_buffer *out, double at, double step)
{
    if (step < 1)
        trp_buffer_printf(out, "%.6g s", at);
    else if (step < 60)
        trp_buffer_printf(out, "%.0f s", at);
    else if (step < 3600)
        trp_buffer_printf(out, "%.0f min", at / 60);
    else if (step < 86400)
        trp_buffer_printf(out, "%.0f h", at / 3600);
    else
        trp_buffer_printf(out, "%.0f d", at / 86400);
}

static void draw_x_axis(const trp_axis *axis, trp_buffer *out)
{
    double span = axis->to - axis->from;
    double step = axis->time ? time_step_of(span, 7) : step_of(span, 7);
    int base = TRP_PLOT_TOP + TRP_PLOT_HEIGHT;
    if (!axis->time && step < 1)
        step = 1;
    line(out, "axis", TRP_PLOT_LEFT, base, TRP_PLOT_LEFT + TRP_PLOT_WIDTH, base);
    if (!(span > 0)) // One report alone.
        step = axis->from > 0 ? axis->from : 1;
    double first = ceil(axis->from / step), at;
    for (int i = 0; (at = (first + i) * step) <= axis->to; i++) {
        double x = x_of(axis, at);
        line(out, "axis", x, base, x, base + 4);
        trp_buffer_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%d\">", x, base + 18);
        if (axis->time)
            label_time(out, at, step);
        else
            trp_html_number(out, at);
        trp_buffer_printf(out, "</text>\n");
    }
}

static bool has_band(const trp_slot *slot)
{
    return slot->count > 1 || (slot->count > 0 && slot->spread);
}

// The bands of slots with several values.
static void draw_bands(const trp_curve *curve, const scale *of, trp_buffer *out)
{
    const trp_series *series = curve->series;
    size_t begun = out->size;
    for (size_t i = 0; i < series->used;) {
        size_t end = i;
        while (end < series->used && has_band(&series->slots[end]))
            end++;
        if (end == i) {
            i++;
            continue;
        }
        trp_buffer_printf(out, "%s", out->size == begun ? "<path class=\"band\" d=\"" : "");
        const trp_slot *first = &series->slots[i];
        double x = x_of(&curve->axis, first->from);
        trp_buffer_printf(out, "M%.1f,%.1f", x, y_of(of, first->high));
        for (size_t k = i; k < end; k++)
            trp_buffer_printf(out, "L%.1f,%.1f", x_of(&curve->axis, series->slots[k].to),
                              y_of(of, series->slots[k].high));
        for (size_t k = end; k-- > i;)
            trp_buffer_printf(out, "L%.1f,%.1f", x_of(&curve->axis, series->slots[k].to),
                              y_of(of, series->slots[k].low));
        trp_buffer_printf(out, "L%.1f,%.1fZ", x, y_of(of, first->low));
        i = end;
    }
    trp_buffer_printf(out, "%s", out->size > begun ? "\"/>\n" : "");
}

// A slot without a number breaks the line; one without a value does not: the metric was not
// reported there.
static void draw_line(const trp_curve *curve, const scale *of, trp_buffer *out)
{
    const trp_series *series = curve->series;
    bool joined = false, alone = false;
    trp_buffer_printf(out, "<path class=\"curve\" d=\"");
    for (size_t i = 0; i < series->used; i++) {
        const trp_slot *slot = &series->slots[i];
        if (slot->count == 0) {
            // A point by itself is a line without a length, whose round ends show it.
            trp_buffer_printf(out, "%s", slot->odd > 0 && alone ? "h0" : "");
            joined = joined && slot->odd == 0;
            alone = alone && slot->odd == 0;
            continue;
        }
        trp_buffer_printf(out, "%c%.1f,%.1f", joined ? 'L' : 'M', x_of(&curve->axis, slot->to),
                          y_of(of, mean_of(slot)));
        alone = !joined;
        joined = true;
    }
    trp_buffer_printf(out, "%s\"/>\n", alone ? "h0" : "");
}

static void draw_odd(const trp_curve *curve, trp_buffer *out)
{
    const trp_series *series = curve->series;
    size_t begun = out->size;
    for (size_t i = 0; i < series->used; i++) {
        if (series->slots[i].odd == 0)
            continue;
        trp_buffer_printf(out, "%s", out->size == begun ? "<path class=\"odd\" d=\"" : "");
        trp_buffer_printf(out, "M%.1f,%dv7", x_of(&curve->axis, series->slots[i].to),
                          TRP_PLOT_TOP - 6);
    }
    trp_buffer_printf(out, "%s", out->size > begun ? "\"/>\n" : "");
}

void trp_curve_draw(const trp_curve *curve, trp_buffer *out)
{
    scale of = scale_of(curve);
    trp_buffer_printf(out,
                      "<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" "
                      "aria-labelledby=\"%s-t %s-d\" data-axis=\"%s\" data-x0=\"%.17g\" "
                      "data-x1=\"%.17g\" data-y0=\"%.17g\" data-y1=\"%.17g\" data-log=\"%d\">\n",
                      curve->kind, TRP_CURVE_WIDTH, TRP_CURVE_HEIGHT, curve->id, curve->id,
                      curve->axis.time ? "time" : "reports", curve->axis.from, curve->axis.to,
                      of.low, of.high, of.log);
    trp_buffer_printf(out, "<title id=\"%s-t\">", curve->id);
    trp_html_text(out, curve->title);
    trp_buffer_printf(out, "</title>\n<desc id=\"%s-d\">", curve->id);
    trp_html_text(out, curve->about);
    trp_buffer_printf(out, "</desc>\n");
    draw_y_axis(&of, out);
    draw_x_axis(&curve->axis, out);
    trp_buffer_printf(out, "<use href=\"#%s\"/>\n", curve->marks);
    draw_bands(curve, &of, out);
    draw_line(curve, &of, out);
    draw_odd(curve, out);
    trp_buffer_printf(out, "</svg>\n");
}

void trp_curve_mark(const trp_axis *axis, trp_mark_kind kind, double at, trp_buffer *out)
{
    static const char *const lines[] = {[TRP_MARK_RESTART] = "restart",
                                        [TRP_MARK_OPENING] = "opening",
                                        [TRP_MARK_CHANGE] = "change"};
    double x = x_of(axis, at), base = TRP_PLOT_TOP + TRP_PLOT_HEIGHT;
    if (kind == TRP_MARK_CHECKPOINT)
        trp_buffer_printf(out, "<path class=\"checkpoint\" d=\"M%.1f,%.1fl3.5,7h-7z\"/>\n", x,
                          base - 7);
    else
        line(out, lines[kind], x, TRP_PLOT_TOP, x, base);
}

void trp_curve_data(const trp_series *series, trp_buffer *out)
{
    bool first = true;
    trp_buffer_append(out, "[", 1);
    for (size_t i = 0; i < series->used; i++) {
        const trp_slot *slot = &series->slots[i];
        if (slot->count == 0)
            continue;
        trp_buffer_printf(out, "%s[%.10g,%.10g,%.6g", first ? "" : ",", slot->from, slot->to,
                          mean_of(slot));
        if (has_band(slot))
            trp_buffer_printf(out, ",%.6g,%.6g,%u", slot->low, slot->high, slot->count);
        trp_buffer_append(out, "]", 1);
        first = false;
    }
    trp_buffer_append(out, "]", 1);
}
