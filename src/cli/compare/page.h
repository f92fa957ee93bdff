/* The HTML page of `clade bench compare`, made from its JSON document. */
#ifndef CLADE_CLI_COMPARE_PAGE_H
#define CLADE_CLI_COMPARE_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include <clade/export.h>

/* Writes the page. Everything comes from the document; a field that is missing or has another type is shown as
 * unknown. false: a write failed. */
bool compare_html(const json_t *document, FILE *out);

extern const char compare_page_css[]; /* src/cli/compare/page.css */

/* ---- html_text.c: reading the document and formatting text and numbers ---- */
double page_number(const json_t *object, const char *field);       /* NAN: no number */
const char *page_string(const json_t *object, const char *field);  /* NULL: no string */
const json_t *page_array(const json_t *object, const char *field); /* NULL: no array */
bool page_same(const char *a, const char *b);                      /* two NULLs are equal */

/* A small printf: %s is escaped, %d is an int, %f is a coordinate with one decimal. */
void page_put(FILE *out, const char *format, ...) CLADE_PRINTF(2, 3);
void page_put_short(FILE *out, const char *text, int most); /* escaped and shortened to `most` characters */
int page_length(const char *text);                          /* in characters, not bytes */

enum { PAGE_WORDS = 40 };
/* Three digits with an SI prefix, "1.23 ms"; "–" for NAN. */
const char *page_quantity(char text[PAGE_WORDS], double value, const char *unit);
const char *page_tick(char text[PAGE_WORDS], double value, const char *unit); /* 1, 2 or 5 times a power of ten */
const char *page_plain(char text[PAGE_WORDS], double value);                  /* three digits without a prefix */
const char *page_count(char text[PAGE_WORDS], double value); /* a whole number, in exponential form if it is long */

/* How kinds of evidence are drawn and explained. */
typedef struct page_tag {
  const char *name; /* NULL: any other evidence */
  const char *mark; /* id of its SVG symbol */
  const char *dash; /* stroke-dasharray of its lines */
  const char *means;
} page_tag;
extern const page_tag page_tags[];
const page_tag *page_tag_of(const json_t *object);
void page_put_tag(FILE *out, const page_tag *tag); /* its symbol on its line */

/* ---- devices and rows ---- */
typedef struct page {
  const json_t *document, *devices, *rows, *answers;
  FILE *out;
} page;
int page_device(const page *p, const json_t *row); /* index of the row's device; -1: not in the document */
/* Letter of a device: "A" to "Z", then numbers. */
const char *page_letter(char text[PAGE_WORDS], int device);
int page_color(int device);                /* color class 0 to 7 of the style sheet; 8: unknown device */
void page_put_chip(FILE *out, int device); /* its letter in its color */

/* ---- html_plot.c: scales, axes and marks of a chart ---- */
enum { PLOT_WIDTH = 360, PLOT_HEIGHT = 280, PLOT_LEFT = 52, PLOT_RIGHT = 340, PLOT_TOP = 24, PLOT_BOTTOM = 236 };
typedef struct plot_scale { /* a logarithmic axis */
  double low, high;         /* decimal logarithms; low > high: empty */
} plot_scale;
extern const plot_scale plot_nothing;
void plot_take(plot_scale *scale, double value); /* ignores values that are not positive */
void plot_round(plot_scale *scale);              /* outward, to 1, 2 or 5 times a power of ten */
bool plot_empty(const plot_scale *scale);
double plot_at(const plot_scale *scale, double value, double from, double to);

void plot_begin(const page *p, int height, const char *title, const char *what);
void plot_end(const page *p);
/* Grid lines, tick labels and titles of the axes. */
void plot_axis_x(const page *p, const plot_scale *x, const char *title);
void plot_axis_y(const page *p, const plot_scale *y, const char *unit, const char *title);
/* Draws a row's mark: the symbol of its evidence in the color of its device, with a tooltip. */
void plot_mark(const page *p, const json_t *row, double x, double y);

/* Labels beside marks, placed where no earlier mark or label is. */
enum { PLOT_BOXES = 96 };
typedef struct plot_boxes {
  int count;
  struct {
    double left, top, right, bottom;
  } box[PLOT_BOXES];
} plot_boxes;
void plot_keep(plot_boxes *boxes, double left, double top, double right, double bottom);
void plot_keep_mark(plot_boxes *boxes, double x, double y);
void plot_label(const page *p, plot_boxes *boxes, const char *text, double x, double y);

/* ---- charts: each is a figure with a panel for every device, model or work ---- */
void page_roofline(const page *p);
void page_latency(const page *p);
void page_throughput(const page *p);
void page_time(const page *p);
/* Open a figure with caption, legend and panels, and close it. */
void page_figure_begin(const page *p, const char *id, int panels, const char *title, const char *what);
void page_figure_end(const page *p);

#endif
