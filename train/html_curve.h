// html_curve.h: the values of a metric over a run, in memory that does not grow with it, and what
// they look like.
//
// A series divides what it runs over, reports or seconds, into at most TRP_SLOTS slots of the same
// width, which doubles as the run goes on; each keeps how many values it has, their sum, the lowest
// and the highest. So nothing that was reported is hidden: where a slot has several values, the
// band from the lowest to the highest is drawn below the line of their means.
#ifndef TRP_HTML_CURVE_H
#define TRP_HTML_CURVE_H

#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <stddef.h>

enum { TRP_SLOTS = 512 };

typedef struct trp_slot {
    double from, to; // Where its first and its last value are.
    double sum, low, high;
    unsigned count; // Values that are numbers,
    unsigned odd;   // and those that cannot be drawn: NaN, the infinities and beyond 1e300.
    bool spread;    // Its lowest and highest are also of values beside these.
} trp_slot;

typedef struct trp_series {
    double width;
    size_t used;
    trp_slot slots[TRP_SLOTS];
} trp_series;

// `width` is that of a slot at first.
void trp_series_begin(trp_series *series, double width);
// Takes a value at `at`, from 0 to 1e15; they need not rise.
void trp_series_add(trp_series *series, double at, double value);
// Takes a value beside one that is at `at` already, another rank's: it widens the band alone.
void trp_series_widen(trp_series *series, double at, double value);
// The lowest and the highest number of it; false: it has none.
bool trp_series_range(const trp_series *series, double *low, double *high);

typedef struct trp_axis {
    bool time; // In seconds; else reports.
    double from, to;
} trp_axis;

// A mark at a place of an axis.
typedef enum trp_mark_kind {
    TRP_MARK_CHECKPOINT,
    TRP_MARK_RESTART,
    TRP_MARK_OPENING,
    TRP_MARK_CHANGE
} trp_mark_kind;

// The drawing's size, and where the curve lies in it.
enum { TRP_CURVE_WIDTH = 480, TRP_CURVE_HEIGHT = 240 };
enum { TRP_PLOT_LEFT = 62, TRP_PLOT_TOP = 12, TRP_PLOT_WIDTH = 406, TRP_PLOT_HEIGHT = 196 };

// Whether a logarithmic scale shows something else than a linear one.
bool trp_curve_has_log(const trp_series *series);
// An SVG element of the curve; `id` is its own in the page, `marks` that of what was made by
// trp_curve_mark. Texts are given to be escaped.
typedef struct trp_curve {
    const trp_series *series;
    trp_axis axis;
    bool log;
    const char *kind; // Its class.
    const char *id, *marks;
    const char *title, *about;
} trp_curve;
void trp_curve_draw(const trp_curve *curve, trp_buffer *out);
// One mark, to be put into a group of that id that all curves of the axis share.
void trp_curve_mark(const trp_axis *axis, trp_mark_kind kind, double at, trp_buffer *out);
// The slots as JSON: "[[from, to, mean, low, high, count], ...]".
void trp_curve_data(const trp_series *series, trp_buffer *out);

#endif
