/* The page of `clade bench compare`: roofline and time charts, and the frame of all figures. */
#include <math.h>

#include "base/base.h"
#include "cli/compare/page.h"

/* ---- figures ---- */
/* The parts of a call. */
static const struct {
  const char *field, *name, *class;
} parts[] = {{"transfer_seconds", "copies in and out", "transfer"},
             {"compute_seconds", "kernels", "compute"},
             {"other_seconds", "launching and waiting", "other"},
             {NULL, "not told", "edge"}};
enum { PARTS = 3 };

static bool is_told(const page *p, const page_tag *tag) {
  for (size_t i = 0; i < json_array_size(p->rows); i++)
    if (page_tag_of(json_array_get(p->rows, i)) == tag) return true;
  return false;
}

static void put_legend(const page *p, bool bars) {
  page_put(p->out, "<ul class=\"legend\">");
  for (size_t i = 0; i < json_array_size(p->devices); i++) {
    page_put(p->out, "<li>");
    page_put_chip(p->out, (int)i);
    page_put(p->out, " ");
    page_put_short(p->out, page_string(json_array_get(p->devices, i), "spec"), 40);
    page_put(p->out, "</li>");
  }
  for (const page_tag *tag = page_tags;; tag++) {
    if (is_told(p, tag)) {
      page_put(p->out, "<li>");
      page_put_tag(p->out, tag);
      page_put(p->out, " %s</li>", tag->name ? tag->name : "other evidence");
    }
    if (!tag->name) break;
  }
  for (size_t i = 0; bars && i < CLADE_COUNT(parts); i++)
    page_put(p->out,
             "<li><svg class=\"sign\" viewBox=\"0 0 24 14\" aria-hidden=\"true\"><rect class=\"%s\" width=\"24\" "
             "height=\"14\"/></svg> %s</li>",
             parts[i].class, parts[i].name);
  page_put(p->out, "</ul>");
}

/* panels: preferred number of columns; 0: the figure says that it has no data. */
void page_figure_begin(const page *p, const char *id, int panels, const char *title, const char *what) {
  page_put(p->out, "<figure id=\"%s\" style=\"--n:%d\"><figcaption><h2>%s</h2><p>%s</p></figcaption>", id,
           CLADE_MAX(CLADE_MIN(panels, 3), 1), title, what);
  if (panels)
    put_legend(p, page_same(id, "time"));
  else
    page_put(p->out, "<p class=\"none\">No row has figures for this chart.</p>");
  page_put(p->out, "<div class=\"panels\">\n");
}

void page_figure_end(const page *p) { page_put(p->out, "</div></figure>\n"); }

/* ---- rooflines: a panel for each device, with common scales ---- */
static double intensity(const json_t *row) { return page_number(row, "flops") / page_number(row, "bytes"); }

static bool has_point(const json_t *row) {
  double x = intensity(row), y = page_number(row, "gflops") * 1e9;
  return x > 0 && y > 0 && isfinite(x) && isfinite(y);
}

static int points_of(const page *p, size_t device) {
  int n = 0;
  for (size_t i = 0; i < json_array_size(p->rows); i++) {
    const json_t *row = json_array_get(p->rows, i);
    n += page_device(p, row) == (int)device && has_point(row);
  }
  return n;
}

static void put_roof(const page *p, const json_t *device, const plot_scale *x, const plot_scale *y, plot_boxes *boxes) {
  double peak = page_number(device, "peak_gflops") * 1e9, copy = page_number(device, "copy_gbs") * 1e9;
  double left = pow(10, x->low), right = pow(10, x->high), ridge = peak / copy;
  char words[PAGE_WORDS];
  if (!(peak > 0) || !(copy > 0) || !isfinite(ridge)) return;
  double low = pow(10, y->low), start = fmax(left, low / copy), turn = fmin(fmax(ridge, start), right);
  page_put(p->out, "<path class=\"roof\" d=\"M%f %fL%f %fL%f %f\"/>", plot_at(x, start, PLOT_LEFT, PLOT_RIGHT),
           plot_at(y, fmin(peak, copy * start), PLOT_BOTTOM, PLOT_TOP), plot_at(x, turn, PLOT_LEFT, PLOT_RIGHT),
           plot_at(y, fmin(peak, copy * turn), PLOT_BOTTOM, PLOT_TOP), (double)PLOT_RIGHT,
           plot_at(y, fmin(peak, copy * right), PLOT_BOTTOM, PLOT_TOP));
  double above = plot_at(y, fmin(peak, copy * right), PLOT_BOTTOM, PLOT_TOP) - 5;
  bool flat = ridge < right;
  page_put(p->out, "<text class=\"tick side halo\" x=\"%d\" y=\"%f\">%s %s</text>", PLOT_RIGHT, above,
           flat ? "peak" : "copies", page_quantity(words, flat ? peak : copy, flat ? "FLOP/s" : "B/s"));
  plot_keep(boxes, PLOT_RIGHT - 110, above - 9, PLOT_RIGHT, above + 7);
}

static void roofline_of(const page *p, size_t at, const plot_scale *x, const plot_scale *y) {
  const json_t *device = json_array_get(p->devices, at);
  plot_boxes boxes = {0};
  page_put(p->out, "<div class=\"panel\"><h3>");
  page_put_chip(p->out, (int)at);
  page_put(p->out, " ");
  page_put_short(p->out, page_string(device, "name") ? page_string(device, "name") : page_string(device, "spec"), 48);
  page_put(p->out, " <span class=\"tag\">%s</span></h3>", page_string(device, "evidence"));
  plot_begin(p, PLOT_HEIGHT, "Roofline", page_string(device, "spec"));
  plot_axis_x(p, x, "FLOPs per byte");
  plot_axis_y(p, y, "", "FLOP/s");
  put_roof(p, device, x, y, &boxes);
  for (int pass = 0; pass < 3; pass++) /* pass 0 reserves the places of marks, 1 draws labels, 2 draws marks on top */
    for (size_t i = 0; i < json_array_size(p->rows); i++) {
      const json_t *row = json_array_get(p->rows, i);
      if (page_device(p, row) != (int)at || !has_point(row)) continue;
      double h = plot_at(x, intensity(row), PLOT_LEFT, PLOT_RIGHT);
      double v = plot_at(y, page_number(row, "gflops") * 1e9, PLOT_BOTTOM, PLOT_TOP);
      if (pass == 0) plot_keep_mark(&boxes, h, v);
      if (pass == 1) plot_label(p, &boxes, page_string(row, "work"), h, v);
      if (pass == 2) plot_mark(p, row, h, v);
    }
  plot_end(p);
  page_put(p->out, "</div>\n");
}

void page_roofline(const page *p) {
  plot_scale x = plot_nothing, y = plot_nothing;
  int panels = 0;
  for (size_t i = 0; i < json_array_size(p->rows); i++) {
    const json_t *row = json_array_get(p->rows, i);
    if (!has_point(row) || page_device(p, row) < 0) continue;
    plot_take(&x, intensity(row));
    plot_take(&y, page_number(row, "gflops") * 1e9);
  }
  for (size_t i = 0; i < json_array_size(p->devices); i++) {
    if (!points_of(p, i)) continue;
    panels++;
    plot_take(&y, page_number(json_array_get(p->devices, i), "peak_gflops") * 1.5e9);
  }
  plot_round(&x);
  plot_round(&y);
  page_figure_begin(
      p, "roofline", panels, "Roofline",
      "What each work reaches, over the arithmetic it has for each byte. The line is what the device can do: its "
      "own copy, then its own peak. Both scales are logarithmic and the same for all devices.");
  for (size_t i = 0; i < json_array_size(p->devices); i++)
    if (points_of(p, i)) roofline_of(p, i, &x, &y);
  page_figure_end(p);
}

/* ---- time: a panel for each work, a bar for each device ---- */
static double part_of(const json_t *row, size_t part) {
  double seconds = page_number(row, parts[part].field);
  return seconds > 0 && isfinite(seconds) ? seconds : 0;
}
/* Length of the whole bar; unknown parts leave a gap. */
static double whole_of(const json_t *row) {
  return fmax(page_number(row, "p50"), part_of(row, 0) + part_of(row, 1) + part_of(row, 2));
}
static bool has_bar(const page *p, const json_t *row) {
  double whole = whole_of(row);
  bool told = part_of(row, 0) > 0 || part_of(row, 1) > 0 || part_of(row, 2) > 0;
  return page_device(p, row) >= 0 && told && isfinite(whole);
}

/* Number of bars for the work of row `at`; 0: an earlier row opened the panel. */
static int bars_of(const page *p, size_t at) {
  const json_t *first = json_array_get(p->rows, at);
  int n = 0;
  for (size_t i = 0; i < json_array_size(p->rows); i++) {
    const json_t *row = json_array_get(p->rows, i);
    if (!has_bar(p, row) || !page_same(page_string(row, "work"), page_string(first, "work"))) continue;
    if (i < at) return 0;
    n++;
  }
  return has_bar(p, first) ? n : 0;
}

enum { BAR_LEFT = 40, BAR_RIGHT = 200, BAR_STEP = 22 };

static void put_bar(const page *p, const json_t *row, int y) {
  const page_tag *tag = page_tag_of(row);
  double whole = whole_of(row), x = BAR_LEFT;
  char letter[PAGE_WORDS], words[PAGE_WORDS], once[PAGE_WORDS];
  int device = page_device(p, row);
  page_put(p->out, "<g class=\"c%d\"><text class=\"letter\" x=\"2\" y=\"%d\">%s</text>", page_color(device), y + 12,
           page_letter(letter, device));
  plot_mark(p, row, 26, y + 8);
  page_put(p->out, "</g>");
  for (size_t i = 0; i < PARTS; i++) {
    double width = part_of(row, i) / whole * (BAR_RIGHT - BAR_LEFT);
    page_put(p->out, "<rect class=\"%s\" x=\"%f\" y=\"%d\" width=\"%f\" height=\"14\"><title>%s: %s</title></rect>",
             parts[i].class, x, y + 1, width, parts[i].name, page_quantity(words, part_of(row, i), "s"));
    x += width;
  }
  page_put(p->out, "<rect class=\"edge\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"14\" stroke-dasharray=\"%s\"/>",
           BAR_LEFT, y + 1, BAR_RIGHT - BAR_LEFT, tag->dash);
  page_put(p->out,
           "<text class=\"value\" x=\"270\" y=\"%d\">%s</text><text class=\"value faint\" x=\"352\" y=\"%d\">%s</text>",
           y + 12, page_quantity(words, page_number(row, "p50"), "s"), y + 12,
           page_quantity(once, page_number(row, "programming_seconds"), "s"));
}

static void time_of(const page *p, size_t at, int bars) {
  const char *work = page_string(json_array_get(p->rows, at), "work");
  int y = 20;
  page_put(p->out, "<div class=\"panel\"><h3>");
  page_put_short(p->out, work, 40);
  page_put(p->out, "</h3>");
  plot_begin(p, y + bars * BAR_STEP, "Where the time goes", work);
  page_put(p->out,
           "<text class=\"tick side\" x=\"270\" y=\"11\">p50</text><text class=\"tick side\" x=\"352\" y=\"11\">"
           "programming</text>");
  for (size_t i = at; i < json_array_size(p->rows); i++) {
    const json_t *row = json_array_get(p->rows, i);
    if (!has_bar(p, row) || !page_same(page_string(row, "work"), work)) continue;
    put_bar(p, row, y);
    y += BAR_STEP;
  }
  plot_end(p);
  page_put(p->out, "</div>\n");
}

void page_time(const page *p) {
  int panels = 0;
  for (size_t i = 0; i < json_array_size(p->rows); i++) panels += bars_of(p, i) > 0;
  page_figure_begin(
      p, "time", panels, "Where the time goes",
      "Of a call at the median; each bar is the whole of its own device's call, whose length stands beside it. "
      "Programming, from loading or compiling to ready, comes once and is not in the bar.");
  for (size_t i = 0; i < json_array_size(p->rows); i++) {
    int bars = bars_of(p, i);
    if (bars) time_of(p, i, bars);
  }
  page_figure_end(p);
}
