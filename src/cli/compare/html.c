/* The page of `clade bench compare`: head, answers, devices and the table of all rows. */
#include <math.h>

#include "base/base.h"
#include "cli/compare/page.h"

/* ---- head ---- */
static const char head[] = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                           "<meta name=\"color-scheme\" content=\"light dark\">\n"
                           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                           "'unsafe-inline'; img-src data:\">\n"
                           "<link rel=\"icon\" href=\"data:,\">\n<title>Clade: devices compared</title>\n<style>\n";

/* Symbols and patterns shared by the charts. Filled symbols were measured or simulated, hollow ones were modeled; a
 * cross says nothing about speed. */
static const char symbols[] =
    "<svg class=\"symbols\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>"
    "<g id=\"mark-measured\"><circle r=\"4.5\" fill=\"currentColor\"/></g>"
    "<g id=\"mark-simulated\"><path d=\"M0-6 6 0 0 6-6 0z\" fill=\"currentColor\"/></g>"
    "<g id=\"mark-routed\"><path class=\"hollow\" d=\"M0-5.5 5.5 4.5h-11z\"/></g>"
    "<g id=\"mark-report\"><path class=\"hollow\" d=\"M-4.5-4.5h9v9h-9z\"/></g>"
    "<g id=\"mark-functional\"><path class=\"hollow\" d=\"M-4.5-4.5l9 9m0-9l-9 9\"/></g>"
    "<g id=\"mark-other\"><circle class=\"hollow\" r=\"4.5\"/></g>"
    "<pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<rect class=\"hatch-ground\" width=\"5\" height=\"5\"/><path class=\"hatch-line\" d=\"M0 0V5\"/></pattern>"
    "</defs></svg>\n";

static void put_machine(const page *p) {
  const json_t *machine = json_object_get(p->document, "machine");
  char words[PAGE_WORDS];
  double processors = page_number(machine, "processors"), busy = page_number(machine, "busy");
  page_put(p->out, "<header><p class=\"brand\">clade bench compare</p><h1>Devices compared</h1><p class=\"machine\">%s",
           page_string(machine, "cpu") ? page_string(machine, "cpu") : "unknown processor");
  if (processors > 0) page_put(p->out, " · %s processors", page_count(words, processors));
  if (page_string(machine, "system")) page_put(p->out, " · %s", page_string(machine, "system"));
  if (page_string(machine, "architecture")) page_put(p->out, " · %s", page_string(machine, "architecture"));
  page_put(p->out, " · %d devices · %d rows", (int)json_array_size(p->devices), (int)json_array_size(p->rows));
  if (json_is_true(json_object_get(p->document, "quick"))) page_put(p->out, " · quick: few and small works");
  page_put(p->out, "</p>");
  if (busy > 0.1)
    page_put(p->out,
             "<p class=\"warning\"><strong>Other processes used %s %% of the processors meanwhile:</strong> these "
             "figures are not worth quoting.</p>",
             page_count(words, 100 * busy));
  if (isnan(busy)) page_put(p->out, "<p class=\"faint\">How busy the machine was with other things is not known.</p>");
  page_put(p->out, "</header>\n");
}

/* ---- answers ---- */
/* The ratio with its range on a logarithmic scale, relative to a line at 1. */
static void put_ratio(const page *p, const json_t *answer) {
  enum { LEFT = 14, RIGHT = 346, Y = 15 };
  double ratio = page_number(answer, "ratio"), least = page_number(answer, "least"), most = page_number(answer, "most");
  char words[PAGE_WORDS];
  plot_scale x = plot_nothing;
  if (!(ratio > 0) || !isfinite(ratio)) return;
  plot_take(&x, 1);
  plot_take(&x, ratio);
  plot_take(&x, least);
  plot_take(&x, most);
  plot_round(&x);
  page_put(p->out,
           "<svg class=\"ratio\" viewBox=\"0 0 360 42\" aria-hidden=\"true\"><path class=\"grid\" d=\"M%d %dH%d\"/>",
           LEFT, Y, RIGHT);
  page_put(p->out, "<path class=\"one\" d=\"M%f 4V26\"/><text class=\"tick\" x=\"%f\" y=\"37\">equal</text>",
           plot_at(&x, 1, LEFT, RIGHT), plot_at(&x, 1, LEFT, RIGHT));
  if (least > 0 && most > 0 && isfinite(most))
    page_put(p->out, "<path class=\"band\" d=\"M%f %dH%f\"/>", plot_at(&x, least, LEFT, RIGHT), Y,
             plot_at(&x, most, LEFT, RIGHT));
  page_put(p->out, "<circle class=\"dot\" cx=\"%f\" cy=\"%d\" r=\"5\"/>", plot_at(&x, ratio, LEFT, RIGHT), Y);
  if (fabs(plot_at(&x, ratio, LEFT, RIGHT) - plot_at(&x, 1, LEFT, RIGHT)) > 34)
    page_put(p->out, "<text class=\"tick\" x=\"%f\" y=\"37\">%s×</text>", plot_at(&x, ratio, LEFT, RIGHT),
             page_plain(words, ratio));
  page_put(p->out, "</svg>");
}

static void put_answer(const page *p, const json_t *answer) {
  const char *sure = page_string(answer, "sure");
  const json_t *tags = page_array(answer, "evidence");
  page_put(p->out, "<article><h3>%s <span class=\"tag\">%s</span></h3><p class=\"says\">%s</p>",
           page_string(answer, "question"), page_string(answer, "work"), page_string(answer, "text"));
  put_ratio(p, answer);
  page_put(p->out, "<p class=\"tags\"><span class=\"sure %s\">%s</span>",
           page_same(sure, "sure") || page_same(sure, "likely") ? sure : "open", sure ? sure : "open");
  for (size_t t = 0; t < json_array_size(tags) && t < 2; t++) {
    const char *tag = json_string_value(json_array_get(tags, t));
    const char *who = page_string(answer, t ? "second" : "winner");
    if (tag && who) page_put(p->out, " <span class=\"tag\">%s: %s</span>", who, tag);
  }
  page_put(p->out, "</p></article>\n");
}

static void put_answers(const page *p) {
  page_put(p->out, "<section id=\"answers\"><h2>Answers</h2>");
  if (!json_array_size(p->answers)) page_put(p->out, "<p class=\"none\">No question was answered.</p>");
  page_put(p->out, "<div class=\"cards\">\n");
  for (size_t i = 0; i < json_array_size(p->answers); i++)
    if (page_string(json_array_get(p->answers, i), "winner")) put_answer(p, json_array_get(p->answers, i));
  page_put(p->out, "</div><ul class=\"unanswered\">\n");
  for (size_t i = 0; i < json_array_size(p->answers); i++)
    if (!page_string(json_array_get(p->answers, i), "winner"))
      page_put(p->out, "<li>%s</li>", page_string(json_array_get(p->answers, i), "text"));
  page_put(p->out, "</ul></section>\n");
}

/* ---- devices ---- */
static void put_fact(const page *p, const char *name, const char *words) {
  page_put(p->out, "<div><dt>%s</dt><dd>%s</dd></div>", name, words ? words : "unknown");
}

static void put_device(const page *p, size_t at) {
  const json_t *device = json_array_get(p->devices, at);
  const page_tag *tag = page_tag_of(device);
  char peak[PAGE_WORDS], copy[PAGE_WORDS];
  const char *name = page_string(device, "name"), *energy = page_string(device, "energy_by");
  page_put(p->out, "<article><h3>");
  page_put_chip(p->out, (int)at);
  page_put(p->out, " %s</h3><p class=\"evidence c%d\">", name ? name : page_string(device, "spec"),
           page_color((int)at));
  page_put_tag(p->out, tag);
  page_put(p->out, " <strong>%s</strong>: %s</p><dl>", page_string(device, "evidence"),
           page_string(device, "why") ? page_string(device, "why") : tag->means);
  put_fact(p, "asked for as", page_string(device, "spec"));
  put_fact(p, "id", page_string(device, "id"));
  put_fact(p, "bundle says",
           page_string(device, "bundle_evidence") ? page_string(device, "bundle_evidence") : "nothing");
  put_fact(p, "platform", page_string(device, "platform"));
  put_fact(p, "class", page_string(device, "class"));
  put_fact(p, "peak", page_quantity(peak, page_number(device, "peak_gflops") * 1e9, "FLOP/s"));
  put_fact(p, "memory", page_quantity(copy, page_number(device, "copy_gbs") * 1e9, "B/s"));
  put_fact(p, "energy by", energy ? energy : "not measured");
  page_put(p->out, "</dl></article>\n");
}

static void put_devices(const page *p) {
  page_put(p->out, "<section id=\"devices\"><h2>Devices</h2>");
  if (!json_array_size(p->devices)) page_put(p->out, "<p class=\"none\">No device took part.</p>");
  page_put(p->out, "<div class=\"cards\">\n");
  for (size_t i = 0; i < json_array_size(p->devices); i++) put_device(p, i);
  page_put(p->out, "</div></section>\n");
}

static void put_meanings(const page *p) {
  page_put(p->out, "<section id=\"evidence\"><h2>What the tags mean</h2><dl class=\"meanings\">");
  for (const page_tag *tag = page_tags; tag->name; tag++) {
    page_put(p->out, "<div><dt>");
    page_put_tag(p->out, tag);
    page_put(p->out, " %s</dt><dd>%s</dd></div>", tag->name, tag->means);
  }
  page_put(p->out, "</dl></section>\n");
}

/* ---- the table ---- */
typedef enum kind { TEXT, SECONDS, AMOUNT, BYTES, ENERGY, PLAIN, PERCENT } kind;
static const struct {
  const char *field, *heading;
  kind kind;
} columns[] = {{"batch", "batch", PLAIN},
               {"dtype", "dtype", TEXT},
               {"p50", "p50", SECONDS},
               {"p99", "p99", SECONDS},
               {"p50_least", "p50 least", SECONDS},
               {"p50_most", "p50 most", SECONDS},
               {"low", "least", SECONDS},
               {"high", "greatest", SECONDS},
               {"items_per_s", "items/s", AMOUNT},
               {"gflops", "GFLOP/s", PLAIN},
               {"fraction_of_peak", "of peak", PERCENT},
               {"transfer_seconds", "copies", SECONDS},
               {"compute_seconds", "kernels", SECONDS},
               {"other_seconds", "other", SECONDS},
               {"programming_seconds", "programming", SECONDS},
               {"first_seconds", "first call", SECONDS},
               {"flops", "FLOPs", AMOUNT},
               {"bytes", "bytes", BYTES},
               {"moved_bytes", "moved", BYTES},
               {"max_error", "error", PLAIN},
               {"accuracy", "right", PERCENT},
               {"joules", "energy", ENERGY},
               {"cycles", "cycles", AMOUNT},
               {"bound", "bound by", TEXT},
               {"fallback", "fallback", TEXT},
               {"bundle_evidence", "bundle says", TEXT},
               {"calls", "calls", PLAIN}};

static const char *words_of(char text[PAGE_WORDS], double value, kind kind) {
  switch (kind) {
  case SECONDS: return page_quantity(text, value, "s");
  case AMOUNT: return page_quantity(text, value, "");
  case BYTES: return page_quantity(text, value, "B");
  case ENERGY: return page_quantity(text, value, "J");
  case PERCENT: page_plain(text, 100 * value); return isfinite(value) ? strcat(text, " %") : "–";
  default: return value == floor(value) ? page_count(text, value) : page_plain(text, value);
  }
}

/* data-value holds the number with all its digits. */
static bool put_cell(const page *p, const json_t *row, size_t column) {
  const json_t *value = json_object_get(row, columns[column].field);
  char words[PAGE_WORDS];
  page_put(p->out, "<td data-field=\"%s\" data-value=\"", columns[column].field);
  if (columns[column].kind == TEXT) {
    const char *text = json_string_value(value);
    page_put(p->out, "%s\">%s</td>", text ? text : "null", text ? text : "–");
    return true;
  }
  bool number = json_is_number(value), written = true;
  if (number)
    written = !json_dumpf(value, p->out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
  else
    page_put(p->out, "null");
  page_put(p->out, "\">%s</td>", words_of(words, number ? json_number_value(value) : NAN, columns[column].kind));
  return written;
}

static bool put_row(const page *p, const json_t *row, const json_t *before) {
  const char *work = page_string(row, "work"), *device = page_string(row, "device"),
             *refused = page_string(row, "refused");
  const page_tag *tag = page_tag_of(row);
  int index = page_device(p, row);
  bool written = true, again = page_same(work, page_string(before, "work"));
  page_put(p->out, "<tr data-device=\"%s\" data-work=\"%s\" class=\"%s\"><th scope=\"row\">%s</th>", device, work,
           again ? "again" : "", work);
  page_put(p->out, "<td class=\"who\">");
  page_put_chip(p->out, index);
  page_put(p->out, " %s</td>", device);
  page_put(p->out,
           "<td class=\"tagged c%d\"><svg class=\"sign\" viewBox=\"-7 -7 14 14\" aria-hidden=\"true\"><use "
           "href=\"#%s\"/></svg> %s</td>",
           page_color(index), tag->mark, page_string(row, "evidence"));
  if (refused)
    page_put(p->out, "<td class=\"refused\" colspan=\"%d\">%s</td>", (int)CLADE_COUNT(columns), refused);
  else
    for (size_t i = 0; i < CLADE_COUNT(columns); i++) written = put_cell(p, row, i) && written;
  page_put(p->out, "</tr>\n");
  return written;
}

static bool put_table(const page *p) {
  bool written = true;
  page_put(p->out, "<section id=\"rows\"><h2>All rows</h2>");
  if (!json_array_size(p->rows)) page_put(p->out, "<p class=\"none\">There are no rows.</p>");
  page_put(
      p->out,
      "<div class=\"scroll\" role=\"region\" aria-label=\"All rows\" tabindex=\"0\"><table><caption><span>Every work "
      "on every device, with the evidence that its figures rest on. “–” is what is not known or not "
      "measured.</span></caption><thead><tr><th scope=\"col\">work</th><th scope=\"col\">device</th>"
      "<th scope=\"col\">evidence</th>");
  for (size_t i = 0; i < CLADE_COUNT(columns); i++) page_put(p->out, "<th scope=\"col\">%s</th>", columns[i].heading);
  page_put(p->out, "</tr></thead><tbody>\n");
  for (size_t i = 0; i < json_array_size(p->rows); i++)
    written = put_row(p, json_array_get(p->rows, i), i ? json_array_get(p->rows, i - 1) : NULL) && written;
  page_put(p->out, "</tbody></table></div></section>\n");
  return written;
}

bool compare_html(const json_t *document, FILE *out) {
  page p = {.document = document,
            .devices = page_array(document, "devices"),
            .rows = page_array(document, "rows"),
            .answers = page_array(document, "answers"),
            .out = out};
  if (fputs(head, out) < 0 || fputs(compare_page_css, out) < 0 || fputs("</style>\n</head>\n<body>\n", out) < 0)
    return false;
  fputs(symbols, out);
  put_machine(&p);
  page_put(out, "<main>");
  put_answers(&p);
  put_devices(&p);
  page_put(out, "<div class=\"charts\">\n");
  page_roofline(&p);
  page_latency(&p);
  page_throughput(&p);
  page_time(&p);
  page_put(out, "</div>\n");
  put_meanings(&p);
  bool written = put_table(&p);
  page_put(out, "</main></body>\n</html>\n");
  return written && !fflush(out) && !ferror(out);
}
