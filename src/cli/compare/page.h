/* The page of clade bench compare: from its JSON document to one HTML file, and what the parts of that share. */
#ifndef CLADE_CLI_COMPARE_PAGE_H
#define CLADE_CLI_COMPARE_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include <clade/export.h>

/* Writes the page. All that it shows comes from the document; what is missing or of another type is shown as unknown.
 * false: it could not be written. */
bool compare_html(const json_t *document, FILE *out);

extern const char compare_page_css[]; /* src/cli/compare/page.css */

/* ---- html_text.c: what is read from the document, and how it is written down ---- */
double page_number(const json_t *object, const char *field);       /* NAN: none */
const char *page_string(const json_t *object, const char *field);  /* NULL: none */
const json_t *page_array(const json_t *object, const char *field); /* NULL: none */
bool page_same(const char *a, const char *b);                      /* both NULL count as the same */

/* %s is escaped; %d; %f is a coordinate. */
void page_put(FILE *out, const char *format, ...) CLADE_PRINTF(2, 3);
void page_put_short(FILE *out, const char *text, int most); /* escaped; at most so many characters */
int page_length(const char *text);                          /* in characters */

enum { PAGE_WORDS = 40 };
/* 3 digits and a prefix: "1.23 ms"; "–" for NAN. */
const char *page_quantity(char text[PAGE_WORDS], double value, const char *unit);
const char *page_tick(char text[PAGE_WORDS], double value, const char *unit); /* of 1, 2 or 5 times a power of ten */
const char *page_plain(char text[PAGE_WORDS], double value);                  /* 3 digits, no prefix */
const char *page_count(char text[PAGE_WORDS], double value); /* a whole number, in full where that is short */

/* How a figure was come by. */
typedef struct page_tag {
  const char *name; /* NULL: any other */
  const char *mark; /* id of its symbol */
  const char *dash; /* of its lines */
  const char *means;
} page_tag;
extern const page_tag page_tags[];
const page_tag *page_tag_of(const json_t *object);

/* ---- devices and rows ---- */
typedef struct page {
  const json_t *document, *devices, *rows, *answers;
  FILE *out;
} page;
int page_device(const page *p, const json_t *row); /* its index; -1: the document does not describe it */
/* The letter of a device: "A", … "Z", "27", … */
const char *page_letter(char text[PAGE_WORDS], int device);
int page_color(int device); /* of 8 that the style sheet has; 8: of no device */

/* ---- html_plot.c: scales, axes and marks of a chart ---- */
enum { PLOT_WIDTH = 360, PLOT_HEIGHT = 280, PLOT_LEFT = 52, PLOT_RIGHT = 340, PLOT_TOP = 24, PLOT_BOTTOM = 236 };
typedef struct plot_scale { /* logarithmic */
  double low, high;         /* powers of ten; low > high: nothing was taken */
} plot_scale;
extern const plot_scale plot_nothing;
void plot_take(plot_scale *scale, double value); /* nothing that is not positive */
void plot_round(plot_scale *scale);              /* outwards to 1, 2 or 5 times a power of ten */
bool plot_empty(const plot_scale *scale);
double plot_at(const plot_scale *scale, double value, double from, double to);

void plot_begin(const page *p, int height, const char *title,
                const char *what); /* <svg …> with its title and description */
void plot_end(const page *p);
/* Lines and numbers for both axes, and what they are. */
void plot_axis_x(const page *p, const plot_scale *x, const char *title);
void plot_axis_y(const page *p, const plot_scale *y, const char *unit, const char *title);
/* The symbol of the row's tag in the color of its device, with what it says when pointed at. */
void plot_mark(const page *p, const json_t *row, double x, double y);

/* Texts beside marks, that cover nothing that stands already. */
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

/* ---- the charts: each a figure with a panel for every device, model or work ---- */
void page_roofline(const page *p);
void page_latency(const page *p);
void page_throughput(const page *p);
void page_time(const page *p);
/* Around them: caption and legend; then panels. */
void page_figure_begin(const page *p, const char *id, int panels, const char *title, const char *what);
void page_figure_end(const page *p);

#endif
