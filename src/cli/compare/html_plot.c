/* The page of `clade bench compare`: logarithmic scales, axes, marks and labels of charts. */
#include <math.h>

#include "base/base.h"
#include "cli/compare/page.h"

/* ---- scales ---- */
const plot_scale plot_nothing = {INFINITY, -INFINITY};

void plot_take(plot_scale *scale, double value) {
  if (!(value > 0) || !isfinite(value)) return;
  scale->low = fmin(scale->low, log10(value));
  scale->high = fmax(scale->high, log10(value));
}

bool plot_empty(const plot_scale *scale) { return scale->low > scale->high; }

static const double steps[] = {0, 0.30102999566398120, 0.69897000433601880, 1}; /* log10 of 1, 2, 5, 10 */

void plot_round(plot_scale *scale) {
  if (plot_empty(scale)) return;
  double low = floor(scale->low - 0.02), high = floor(scale->high + 0.02);
  int i = 3, j = 0;
  while (i > 0 && low + steps[i] > scale->low - 0.02) i--;
  while (j < 3 && high + steps[j] < scale->high + 0.02) j++;
  scale->low = low + steps[i];
  scale->high = high + steps[j];
}

double plot_at(const plot_scale *scale, double value, double from, double to) {
  double width = scale->high - scale->low;
  return width > 0 ? from + (log10(value) - scale->low) / width * (to - from) : (from + to) / 2;
}

/* ---- axes ---- */
void plot_begin(const page *p, int height, const char *title, const char *what) {
  page_put(p->out, "<svg role=\"img\" viewBox=\"0 0 %d %d\" aria-label=\"%s\"><title>%s</title><desc>%s</desc>",
           PLOT_WIDTH, height, title, title, what);
}

void plot_end(const page *p) { page_put(p->out, "</svg>\n"); }

/* Which ticks an axis has: 1, 2 and 5 in each decade on a short axis, powers of ten on a long one. */
typedef struct tick_way {
  int first, last, every; /* exponents of ten */
  bool finer;
} tick_way;

static tick_way ticks_of(const plot_scale *scale) {
  tick_way way = {(int)floor(scale->low), (int)floor(scale->high), 1, scale->high - scale->low < 2.2};
  while ((way.last - way.first) / way.every > 6) way.every++;
  return way;
}

/* Next tick from position *at on, where positions count 1, 2, 5 in each decade; NAN: none. */
static double next_tick(const plot_scale *scale, tick_way way, int *at) {
  for (; way.first + *at / 3 <= way.last; ++*at) {
    double tick = way.first + *at / 3 + steps[*at % 3];
    bool drawn = *at % 3 ? way.finer : *at / 3 % way.every == 0;
    if (drawn && tick > scale->low - 1e-9 && tick < scale->high + 1e-9) {
      ++*at;
      return tick;
    }
  }
  return NAN;
}

void plot_axis_x(const page *p, const plot_scale *x, const char *title) {
  int at = 0;
  tick_way way = ticks_of(x);
  for (double tick; !isnan(tick = next_tick(x, way, &at));) {
    char words[PAGE_WORDS];
    double place = plot_at(x, pow(10, tick), PLOT_LEFT, PLOT_RIGHT);
    page_put(p->out, "<path class=\"grid\" d=\"M%f %dV%d\"/><text class=\"tick\" x=\"%f\" y=\"%d\">%s</text>", place,
             PLOT_TOP, PLOT_BOTTOM, place, PLOT_BOTTOM + 16, page_tick(words, pow(10, tick), ""));
  }
  page_put(p->out, "<text class=\"axis\" x=\"%d\" y=\"%d\">%s</text>", (PLOT_LEFT + PLOT_RIGHT) / 2, PLOT_BOTTOM + 36,
           title);
}

void plot_axis_y(const page *p, const plot_scale *y, const char *unit, const char *title) {
  int at = 0;
  tick_way way = ticks_of(y);
  for (double tick; !isnan(tick = next_tick(y, way, &at));) {
    char words[PAGE_WORDS];
    double place = plot_at(y, pow(10, tick), PLOT_BOTTOM, PLOT_TOP);
    page_put(p->out, "<path class=\"grid\" d=\"M%d %fH%d\"/><text class=\"tick side\" x=\"%d\" y=\"%f\">%s</text>",
             PLOT_LEFT, place, PLOT_RIGHT, PLOT_LEFT - 6, place + 4, page_tick(words, pow(10, tick), unit));
  }
  page_put(p->out, "<text class=\"name\" x=\"2\" y=\"11\">%s</text>", title);
}

/* ---- marks ---- */
void plot_mark(const page *p, const json_t *row, double x, double y) {
  char p50[PAGE_WORDS], items[PAGE_WORDS], flops[PAGE_WORDS];
  const page_tag *tag = page_tag_of(row);
  page_put(p->out, "<use class=\"c%d\" href=\"#%s\" x=\"%f\" y=\"%f\"><title>%s on %s: %s, %s/s, %s, %s</title></use>",
           page_color(page_device(p, row)), tag->mark, x, y, page_string(row, "work"), page_string(row, "device"),
           page_quantity(p50, page_number(row, "p50"), "s"), page_quantity(items, page_number(row, "items_per_s"), ""),
           page_quantity(flops, page_number(row, "gflops") * 1e9, "FLOP/s"), page_string(row, "evidence"));
}

/* ---- labels ---- */
void plot_keep(plot_boxes *boxes, double left, double top, double right, double bottom) {
  if (boxes->count == PLOT_BOXES) return;
  boxes->box[boxes->count].left = left, boxes->box[boxes->count].right = right;
  boxes->box[boxes->count].top = top, boxes->box[boxes->count++].bottom = bottom;
}

void plot_keep_mark(plot_boxes *boxes, double x, double y) { plot_keep(boxes, x - 5, y - 5, x + 5, y + 5); }

static bool is_free(const plot_boxes *boxes, double left, double top, double right, double bottom) {
  if (left < PLOT_LEFT || right > PLOT_WIDTH || top < 0 || bottom > PLOT_BOTTOM) return false;
  for (int i = 0; i < boxes->count; i++)
    if (left < boxes->box[i].right && right > boxes->box[i].left && top < boxes->box[i].bottom &&
        bottom > boxes->box[i].top)
      return false;
  return boxes->count < PLOT_BOXES;
}

void plot_label(const page *p, plot_boxes *boxes, const char *text, double x, double y) {
  enum { MOST = 22, HEIGHT = 10 };
  double width = 6.1 * CLADE_MIN(page_length(text), MOST);
  const struct {
    const char *class;
    double x, left, top;
  } places[] = {{"after", x + 8, x + 8, y - 5},
                {"before", x - 8, x - 8 - width, y - 5},
                {"over", x, x - width / 2, y - 17},
                {"over", x, x - width / 2, y + 7}};
  for (size_t i = 0; i < CLADE_COUNT(places); i++) {
    double left = places[i].left, top = places[i].top;
    if (!is_free(boxes, left, top, left + width, top + HEIGHT)) continue;
    plot_keep(boxes, left, top, left + width, top + HEIGHT);
    page_put(p->out, "<text class=\"label halo %s\" x=\"%f\" y=\"%f\">", places[i].class, places[i].x, top + 8.5);
    page_put_short(p->out, text, MOST);
    page_put(p->out, "</text>");
    return;
  }
}
