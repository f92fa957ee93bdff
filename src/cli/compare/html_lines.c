/* The page of `clade bench compare`: latency and throughput over batch size, a panel for each model, a line for each
 * device. */
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "cli/compare/page.h"

typedef struct lines {
  const char *id, *title, *what, *field, *unit, *axis;
  bool whiskers;
} lines;

static const lines latency = {
    "latency",
    "Latency over batch size",
    "Seconds of a call with its input copied in and its result copied out: the median, and a whisker up to the 99th "
    "percentile. Where a model computed it, the whisker is the whole range that it gives. Lower is better.",
    "p50",
    "s",
    "seconds of a call",
    true};
static const lines throughput = {"throughput",
                                 "Throughput over batch size",
                                 "Items a second at the median. Higher is better.",
                                 "items_per_s",
                                 "",
                                 "items a second",
                                 false};

static bool is_panel(const json_t *a, const json_t *b) {
  return page_same(page_string(a, "model"), page_string(b, "model")) &&
         page_same(page_string(a, "group"), page_string(b, "group")) &&
         page_same(page_string(a, "dtype"), page_string(b, "dtype"));
}

static bool has_value(const json_t *row, const lines *l) {
  double batch = page_number(row, "batch"), value = page_number(row, l->field);
  return page_string(row, "model") && batch > 0 && value > 0 && isfinite(batch) && isfinite(value);
}

/* Whether the row is the first of its panel with a value. */
static bool opens_panel(const page *p, const lines *l, size_t at) {
  const json_t *row = json_array_get(p->rows, at);
  if (!has_value(row, l)) return false;
  for (size_t i = 0; i < at; i++)
    if (has_value(json_array_get(p->rows, i), l) && is_panel(json_array_get(p->rows, i), row)) return false;
  return true;
}

/* The device's row with the smallest batch above `above`; device -1: any device. */
static const json_t *next_of(const page *p, const lines *l, const json_t *panel, int device, double above) {
  const json_t *best = NULL;
  for (size_t i = 0; i < json_array_size(p->rows); i++) {
    const json_t *row = json_array_get(p->rows, i);
    if (!has_value(row, l) || !is_panel(row, panel) || (device >= 0 && page_device(p, row) != device)) continue;
    double batch = page_number(row, "batch");
    if (batch > above && (!best || batch < page_number(best, "batch"))) best = row;
  }
  return best;
}

static void span_of(const json_t *row, const lines *l, double *low, double *high) {
  double p99 = page_number(row, "p99"), least = page_number(row, "low"), greatest = page_number(row, "high");
  *low = *high = page_number(row, l->field);
  if (!l->whiskers) return;
  *high = fmax(*high, p99 > 0 ? p99 : greatest);
  if (!(p99 > 0) && least > 0) *low = fmin(*low, least);
}

static void put_batches(const page *p, const lines *l, const json_t *panel, const plot_scale *x) {
  double told = -INFINITY;
  for (const json_t *row = NULL; (row = next_of(p, l, panel, -1, row ? page_number(row, "batch") : 0));) {
    char words[PAGE_WORDS];
    double place = plot_at(x, page_number(row, "batch"), PLOT_LEFT + 22, PLOT_RIGHT - 22);
    if (place - told < 26) continue;
    told = place;
    snprintf(words, sizeof words, "%.6g", page_number(row, "batch"));
    page_put(p->out, "<path class=\"grid\" d=\"M%f %dV%d\"/><text class=\"tick\" x=\"%f\" y=\"%d\">%s</text>", place,
             PLOT_TOP, PLOT_BOTTOM, place, PLOT_BOTTOM + 16, words);
  }
  page_put(p->out, "<text class=\"axis\" x=\"%d\" y=\"%d\">batch</text>", (PLOT_LEFT + PLOT_RIGHT) / 2,
           PLOT_BOTTOM + 36);
}

/* Devices are shifted slightly against each other so that whiskers do not overlap; further apart if all rows have
 * the same batch. */
static double x_of(const page *p, const json_t *row, const plot_scale *x, int device) {
  int n = (int)json_array_size(p->devices);
  double room = x->high > x->low ? 30 : 220, apart = fmin(room / 5, room / CLADE_MAX(n, 1));
  return plot_at(x, page_number(row, "batch"), PLOT_LEFT + 22, PLOT_RIGHT - 22) + apart * (device - (n - 1) * 0.5);
}

static double y_of(const json_t *row, const lines *l, const plot_scale *y) {
  return plot_at(y, page_number(row, l->field), PLOT_BOTTOM, PLOT_TOP);
}

static void put_line(const page *p, const lines *l, const json_t *panel, int device, const plot_scale *x,
                     const plot_scale *y, plot_boxes *boxes) {
  const json_t *row = next_of(p, l, panel, device, 0);
  if (!row) return;
  page_put(p->out, "<g class=\"c%d\"><path class=\"line\" stroke-dasharray=\"%s\" d=\"", page_color(device),
           page_tag_of(row)->dash);
  for (char to = 'M'; row; row = next_of(p, l, panel, device, page_number(row, "batch")), to = 'L')
    page_put(p->out, to == 'M' ? "M%f %f" : "L%f %f", x_of(p, row, x, device), y_of(row, l, y));
  page_put(p->out, "\"/>");
  while ((row = next_of(p, l, panel, device, row ? page_number(row, "batch") : 0))) {
    double low, high, h = x_of(p, row, x, device), v = y_of(row, l, y);
    span_of(row, l, &low, &high);
    if (high > low)
      page_put(p->out, "<path class=\"whisker\" d=\"M%f %fV%fm-3 0h6\"/>", h, plot_at(y, low, PLOT_BOTTOM, PLOT_TOP),
               plot_at(y, high, PLOT_BOTTOM, PLOT_TOP));
    plot_keep_mark(boxes, h, v);
    plot_mark(p, row, h, v);
  }
  page_put(p->out, "</g>");
}

static const json_t *last_of(const page *p, const lines *l, const json_t *panel, int device) {
  const json_t *last = NULL;
  for (const json_t *row; (row = next_of(p, l, panel, device, last ? page_number(last, "batch") : 0));) last = row;
  return last;
}

/* Letters of lines are in a column on the right, in the order of the line ends and without overlap. */
typedef struct line_end {
  int device;
  double x, y, place;
} line_end;

static int by_height(const void *a, const void *b) {
  double d = ((const line_end *)a)->y - ((const line_end *)b)->y;
  return (d > 0) - (d < 0);
}

static void put_letters(const page *p, const lines *l, const json_t *panel, const plot_scale *x, const plot_scale *y) {
  enum { MOST = 18, STEP = 12 };
  line_end end[MOST];
  int n = 0;
  char letter[PAGE_WORDS];
  for (int i = 0; i < (int)json_array_size(p->devices) && n < MOST; i++) {
    const json_t *last = last_of(p, l, panel, i);
    if (last) end[n++] = (line_end){i, x_of(p, last, x, i), y_of(last, l, y), 0};
  }
  qsort(end, (size_t)n, sizeof *end, by_height);
  for (int i = 0; i < n; i++) end[i].place = fmax(end[i].y, i ? end[i - 1].place + STEP : PLOT_TOP);
  for (int i = n; i-- > 0;) end[i].place = fmin(end[i].place, PLOT_BOTTOM - STEP * (n - 1 - i));
  for (int i = 0; i < n; i++)
    page_put(p->out,
             "<g class=\"c%d\"><path class=\"leader\" d=\"M%f %fL%d %f\"/><text class=\"letter\" x=\"%d\" "
             "y=\"%f\">%s</text></g>",
             page_color(end[i].device), end[i].x + 6, end[i].y, PLOT_RIGHT + 3, end[i].place, PLOT_RIGHT + 5,
             end[i].place + 4, page_letter(letter, end[i].device));
}

/* Letters of single marks are beside the marks. */
static void put_labels(const page *p, const lines *l, const json_t *panel, const plot_scale *x, const plot_scale *y,
                       plot_boxes *boxes) {
  char letter[PAGE_WORDS];
  for (int i = 0; i < (int)json_array_size(p->devices); i++) {
    const json_t *row = last_of(p, l, panel, i);
    if (row) plot_label(p, boxes, page_letter(letter, i), x_of(p, row, x, i), y_of(row, l, y));
  }
}

static void panel_of(const page *p, const lines *l, const json_t *panel) {
  plot_scale x = plot_nothing, y = plot_nothing;
  plot_boxes boxes = {0};
  const char *group = page_string(panel, "group"), *title = page_same(group, "train") ? "training step" : "inference";
  for (size_t i = 0; i < json_array_size(p->rows); i++) {
    const json_t *row = json_array_get(p->rows, i);
    double low, high;
    if (!has_value(row, l) || !is_panel(row, panel)) continue;
    span_of(row, l, &low, &high);
    plot_take(&x, page_number(row, "batch"));
    plot_take(&y, low);
    plot_take(&y, high);
  }
  plot_round(&y);
  page_put(p->out, "<div class=\"panel\"><h3>");
  page_put_short(p->out, page_string(panel, "model"), 32);
  page_put(p->out, ", %s <span class=\"tag\">%s</span></h3>", title, page_string(panel, "dtype"));
  plot_begin(p, PLOT_HEIGHT, l->title, page_string(panel, "model"));
  put_batches(p, l, panel, &x);
  plot_axis_y(p, &y, l->unit, l->axis);
  for (size_t i = 0; i < json_array_size(p->devices); i++) put_line(p, l, panel, (int)i, &x, &y, &boxes);
  if (x.high > x.low)
    put_letters(p, l, panel, &x, &y);
  else
    put_labels(p, l, panel, &x, &y, &boxes);
  plot_end(p);
  page_put(p->out, "</div>\n");
}

static void put_lines(const page *p, const lines *l) {
  int panels = 0;
  for (size_t i = 0; i < json_array_size(p->rows); i++) panels += opens_panel(p, l, i);
  page_figure_begin(p, l->id, panels, l->title, l->what);
  for (size_t i = 0; i < json_array_size(p->rows); i++)
    if (opens_panel(p, l, i)) panel_of(p, l, json_array_get(p->rows, i));
  page_figure_end(p);
}

void page_latency(const page *p) { put_lines(p, &latency); }
void page_throughput(const page *p) { put_lines(p, &throughput); }
