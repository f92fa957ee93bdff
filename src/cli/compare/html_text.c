/* The page of `clade bench compare`: reading fields of the document, and writing text and numbers as HTML. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/base.h"
#include "cli/compare/page.h"

/* ---- reading ---- */
double page_number(const json_t *object, const char *field) {
  const json_t *value = json_object_get(object, field);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *page_string(const json_t *object, const char *field) {
  return json_string_value(json_object_get(object, field));
}

const json_t *page_array(const json_t *object, const char *field) {
  const json_t *value = json_object_get(object, field);
  return json_is_array(value) ? value : NULL;
}

bool page_same(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

const page_tag page_tags[] = {
    {"measured", "mark-measured", "none", "timed on the device itself, on this machine"},
    {"rtl-simulated", "mark-simulated", "9 3",
     "cycles counted by simulating the circuit clock by clock; no such card was there"},
    {"modeled(routed)", "mark-routed", "5 3",
     "computed from a design that was placed and routed; a range, of which the middle is drawn"},
    {"modeled(report)", "mark-report", "2 3",
     "computed from a report or published figures; a range, of which the middle is drawn"},
    {"functional-only", "mark-functional", "1 4",
     "another processor stands in for the device: results are right, times say nothing about the device"},
    {NULL, "mark-other", "1 2", "evidence of no known kind"}};

const page_tag *page_tag_of(const json_t *object) {
  const char *name = page_string(object, "evidence");
  const page_tag *tag = page_tags;
  while (tag->name && !page_same(tag->name, name)) tag++;
  return tag;
}

int page_device(const page *p, const json_t *row) {
  const char *spec = page_string(row, "device");
  for (size_t i = 0; spec && i < json_array_size(p->devices); i++)
    if (page_same(spec, page_string(json_array_get(p->devices, i), "spec"))) return (int)i;
  return -1;
}

const char *page_letter(char text[PAGE_WORDS], int device) {
  if (device < 0) return "?";
  snprintf(text, PAGE_WORDS, device < 26 ? "%c" : "%d", device < 26 ? 'A' + device : device + 1);
  return text;
}

int page_color(int device) {
  enum { COLORS = 8 };
  return device < 0 ? COLORS : device % COLORS;
}

/* ---- writing ---- */
/* HTML does not allow control characters. */
static void put_character(FILE *out, char c) {
  const char *escaped = c == '&'                              ? "&amp;"
                        : c == '<'                            ? "&lt;"
                        : c == '>'                            ? "&gt;"
                        : c == '"'                            ? "&quot;"
                        : c == '\''                           ? "&#39;"
                        : ((unsigned char)c < 32 || c == 127) ? "\xef\xbf\xbd"
                                                              : NULL;
  if (escaped)
    fputs(escaped, out);
  else
    putc(c, out);
}

static bool begins_character(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

int page_length(const char *text) {
  int length = 0;
  for (; text && *text; text++) length += begins_character(*text);
  return length;
}

void page_put_short(FILE *out, const char *text, int most) {
  bool whole = page_length(text) <= most;
  for (int n = 0; text && *text; text++) {
    n += begins_character(*text);
    if (!whole && n >= most) break;
    put_character(out, *text);
  }
  if (!whole) fputs("…", out);
}

static void put_text(FILE *out, const char *text) {
  for (; text && *text; text++) put_character(out, *text);
}

void page_put(FILE *out, const char *format, ...) {
  va_list args;
  va_start(args, format);
  for (; *format; format++) {
    if (*format != '%') {
      putc(*format, out);
      continue;
    }
    switch (*++format) {
    case 's': put_text(out, va_arg(args, const char *)); break;
    case 'd': fprintf(out, "%d", va_arg(args, int)); break;
    case 'f': fprintf(out, "%.1f", va_arg(args, double)); break;
    default: putc(*format, out);
    }
  }
  va_end(args);
}

/* ---- numbers ---- */
const char *page_plain(char text[PAGE_WORDS], double value) {
  double size = fabs(value);
  if (!isfinite(value)) return "–";
  if (size != 0 && (size < 9.995e-4 || size >= 99999.5))
    snprintf(text, PAGE_WORDS, "%.2e", value);
  else
    snprintf(text, PAGE_WORDS, "%.*f",
             size >= 99.95                 ? 0
             : size >= 9.995               ? 1
             : size >= 0.9995 || size == 0 ? 2
             : size >= 0.09995             ? 3
                                           : 4,
             value);
  return text;
}

/* Scales a value to its prefix: 0.00123 gives 1.23 and "m". Numbers without a unit get no prefix below 1. */
static double scaled(double value, const char *unit, const char **prefix) {
  static const char *const prefixes[] = {"p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"};
  enum { ONE = 4 };
  int at = ONE, first = *unit ? 0 : ONE, last = page_same(unit, "s") ? ONE : (int)CLADE_COUNT(prefixes) - 1;
  while (at < last && fabs(value) >= 999.5) at++, value /= 1e3;
  while (at > first && value != 0 && fabs(value) < 0.9995) at--, value *= 1e3;
  *prefix = value != 0 ? prefixes[at] : "";
  return value;
}

const char *page_quantity(char text[PAGE_WORDS], double value, const char *unit) {
  const char *prefix;
  double left = scaled(value, unit, &prefix), size = fabs(left);
  if (!isfinite(value)) return "–";
  if (size >= 99999.5 || (size != 0 && size < 9.995e-3))
    snprintf(text, PAGE_WORDS, "%.2e %s", value, unit);
  else
    snprintf(text, PAGE_WORDS, "%.*f %s%s", size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2, left, prefix, unit);
  return text;
}

const char *page_tick(char text[PAGE_WORDS], double value, const char *unit) {
  const char *prefix;
  double left = scaled(value, unit, &prefix);
  snprintf(text, PAGE_WORDS, left >= 0.9995 && left < 99999.5 ? "%.0f %s%s" : "%.1g %s%s", left, prefix, unit);
  return text;
}

const char *page_count(char text[PAGE_WORDS], double value) {
  if (!isfinite(value)) return "–";
  snprintf(text, PAGE_WORDS, fabs(value) < 999999.5 ? "%.0f" : "%.2e", value);
  return text;
}

/* ---- devices and evidence ---- */
void page_put_chip(FILE *out, int device) {
  char letter[PAGE_WORDS];
  page_put(out, "<b class=\"chip c%d\">%s</b>", page_color(device), page_letter(letter, device));
}

void page_put_tag(FILE *out, const page_tag *tag) {
  page_put(out,
           "<svg class=\"sign\" viewBox=\"-12 -7 24 14\" aria-hidden=\"true\"><path d=\"M-12 0H12\" "
           "stroke-dasharray=\"%s\"/><use href=\"#%s\"/></svg>",
           tag->dash, tag->mark);
}
