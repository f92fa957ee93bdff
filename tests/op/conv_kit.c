/* Random convolutions and a direct reference in double for their three passes. Over 400 lines: the reference of each
 * pass stands beside the two others, with which it shares its walk over windows. */
#include "conv_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Indices of the parameters in op_case.i. */
enum {
  KERNEL = 0,
  STRIDE = 2,
  PAD = 4,
  DILATION = 8,
  GROUPS = 10,
  IMAGES,
  INNER,
  ROWS,
  SIZE,
  PROGRAM = SIZE + 2,
  HALVED,
  LAST = HALVED,
  DEPTH = 24 /* kernel, stride, pads, dilation, size */
};
_Static_assert(LAST < 20, "tests keep numbers of their own from 20 to 23");

static bool is_line(const op_case *c) { return c->form == CONV_LINE || c->form == CONV_LINE_TRANSPOSED; }

/* Inserts the depth axis. */
static void insert(clade_shape *s, int64_t extent) {
  for (int i = s->rank++; i > 2; i--) s->dim[i] = s->dim[i - 1];
  s->dim[2] = extent;
}

conv conv_of(const op_case *c) {
  conv v = {.groups = c->i[GROUPS]};
  const int *i = c->i;
  for (int k = 0; k < 4; k++) v.window.pad[k] = i[PAD + k];
  v.x = CLADE_SHAPE(i[IMAGES], i[GROUPS] * i[INNER], i[SIZE], i[SIZE + 1]);
  v.w = CLADE_SHAPE(i[GROUPS] * i[ROWS], i[INNER], i[KERNEL], i[KERNEL + 1]);
  v.y = CLADE_SHAPE(i[IMAGES], i[GROUPS] * i[ROWS], 0, 0);
  for (int k = 0; k < 2; k++) {
    v.window.kernel[k] = i[KERNEL + k];
    v.window.stride[k] = i[STRIDE + k];
    v.window.dilation[k] = i[DILATION + k];
    int room = i[SIZE + k] + i[PAD + k] + i[PAD + 2 + k] - (i[KERNEL + k] - 1) * i[DILATION + k] - 1;
    v.y.dim[2 + k] = room / i[STRIDE + k] + 1;
  }
  v.depth = (clade__unfold_attrs){.size = 1, .kernel = 1, .stride = 1, .dilation = 1};
  if (c->form == CONV_SOLID) {
    const int *d = i + DEPTH;
    v.depth = (clade__unfold_attrs){d[5], d[0], d[1], d[4], {d[2], d[3]}};
    insert(&v.x, d[5]);
    insert(&v.w, d[0]);
    insert(&v.y, (d[5] + d[2] + d[3] - (d[0] - 1) * d[4] - 1) / d[1] + 1);
  } else if (is_line(c)) {
    clade_shape *shapes[] = {&v.x, &v.w, &v.y};
    for (int k = 0; k < 3; k++) shapes[k]->dim[2] = shapes[k]->dim[3], shapes[k]->rank = 3;
  }
  return v;
}

static int among(op_random *r, int n, const int *of) { return of[op_integer(r, 0, n - 1)]; }
#define AMONG(r, ...) among(r, (int)CLADE_COUNT(((int[]){__VA_ARGS__})), (int[]){__VA_ARGS__})

/* A case for Winograd's algorithm: 3 x 3, stride 1, one group. Returns whether nothing else may be varied. */
static bool winograd(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i;
  i[GROUPS] = 1;
  i[INNER] = few ? (int)op_integer(r, 1, 3) : AMONG(r, 1, 2, 3, 7, 16, 17, 33, 64);
  i[ROWS] = few ? (int)op_integer(r, 1, 3) : AMONG(r, 1, 2, 8, 9, 16, 17, 33, 48);
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = 3;
    i[STRIDE + k] = i[DILATION + k] = 1;
    i[SIZE + k] = few ? (int)op_integer(r, 1, 6) : AMONG(r, 1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 17, 28, 33);
    for (int side = 0; side < 2; side++) i[PAD + k + 2 * side] = (int)op_integer(r, 0, 2);
    i[SIZE + k] = CLADE_MAX(i[SIZE + k], 3 - i[PAD + k] - i[PAD + k + 2]);
  }
  if (strcmp(c->impl, "winograd") != 0) return false;
  if (few || c->light || (c->tiles && c->number < 12) || op_chance(r, 0.5)) return false; /* many rows take seconds */
  /* Either many channels, for strips of tiles that exceed private memory, or the data gradient. */
  bool forward = op_chance(r, 0.5);
  bool strips = op_chance(r, 0.25); /* several strips in workspace */
  i[INNER] = forward ? strips ? 600 : 1200 : 1;
  i[ROWS] = forward ? 1 : strips ? 600 : 1200;
  i[SIZE] = i[SIZE + 1] = strips ? (int)op_integer(r, 28, 33) : (int)op_integer(r, 7, 8);
  if (strips) i[IMAGES] = 4;
  return strips;
}

/* A case for `fft`: stride 1, one group or depthwise, and windows up to 48 x 48. */
static void large(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i, largest = 0;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = few ? (int)op_integer(r, 1, 4) : AMONG(r, 1, 2, 5, 7, 9, 11, 12, 13, 17, 24, 31, 48);
    i[STRIDE + k] = i[DILATION + k] = 1;
    i[SIZE + k] = few ? (int)op_integer(r, 1, 5) : AMONG(r, 1, 2, 7, 10, 14, 17, 28, 33);
    for (int side = 0; side < 2; side++) i[PAD + k + 2 * side] = (int)op_integer(r, 0, i[KERNEL + k] / 2 + 1);
    i[SIZE + k] = CLADE_MAX(i[SIZE + k], i[KERNEL + k] - i[PAD + k] - i[PAD + k + 2]);
    largest = CLADE_MAX(largest, i[KERNEL + k]);
  }
  i[GROUPS] = op_chance(r, 0.6) ? 1 : few ? 2 : largest > 13 ? 3 : AMONG(r, 3, 16, 33);
  i[INNER] = i[GROUPS] > 1 ? 1 : few || largest > 13 ? (int)op_integer(r, 1, 2) : AMONG(r, 1, 2, 7, 16, 17, 33);
  i[ROWS] = i[GROUPS] > 1 ? 1 : few || largest > 13 ? (int)op_integer(r, 1, 2) : AMONG(r, 1, 2, 9, 16, 17, 33);
}

/* A case for `flat`: stride 1; whole blocks of channels and images of at least one tile, or any channels and images of
 * several tiles. */
static void points(op_case *c, op_random *r) {
  const bool few = c->small || c->gradient, dense = c->alternative == 1;
  int *i = c->i;
  i[GROUPS] = 1;
  for (int k = 0; k < 2; k++) {
    i[STRIDE + k] = 1;
    i[SIZE + k] = dense ? (int)op_integer(r, few ? 10 : 14, few ? 11 : 21) : few ? 4 : AMONG(r, 4, 5, 7, 8, 13, 14);
    for (int side = 0; side < 2; side++) i[PAD + k + 2 * side] = 0;
  }
  if (dense) return;
  i[INNER] = few ? 16 : AMONG(r, 16, 32, 48, 112);
  i[ROWS] = few ? 16 : AMONG(r, 16, 32, 48, 96, 240);
}

/* What `mma` takes: whole words of channels, of a dense image few. */
static void words(op_case *c, op_random *r) {
  const bool few = c->small || c->gradient;
  const bool dense = c->alternative == 1;
  int *i = c->i;
  i[GROUPS] = 1;
  if (!dense && op_chance(r, 0.6)) { /* whole blocks of channels, as by the weights */
    i[INNER] = few ? 16 : AMONG(r, 16, 32, 48, 64);
    i[ROWS] = few ? 16 : AMONG(r, 16, 32, 48, 80);
    return;
  }
  i[INNER] = dense ? AMONG(r, 1, 3, 4, 7, 16) : few ? 4 : AMONG(r, 4, 8, 16, 24, 32, 64);
  i[ROWS] = few ? AMONG(r, 3, 16) : AMONG(r, 1, 8, 16, 17, 24, 32, 48, 65);
}

static void one_high(int *i) {
  i[KERNEL] = i[STRIDE] = i[DILATION] = i[SIZE] = 1;
  i[PAD] = i[PAD + 2] = 0;
}

/* Depths with one window position, or with independent slices and sometimes independent lines, for which no slice is
 * copied. */
static void draw_depth(op_case *c, op_random *r) {
  int *i = c->i, *d = i + DEPTH;
  bool few = c->small || c->gradient;
  double special = op_uniform(r, 0, 1);
  d[0] = (int)op_integer(r, 1, few ? 2 : 3);
  d[1] = (int)op_integer(r, 1, 2);
  d[4] = (int)op_integer(r, 1, 2);
  for (int side = 2; side < 4; side++) d[side] = (int)op_integer(r, 0, 2);
  d[5] = (int)op_integer(r, 1, few ? 2 : 5);
  if (special < 0.4 || strncmp(c->impl, "depthwise", 9) == 0) {
    d[0] = special < 0.2 && d[5] > 1 && strncmp(c->impl, "depthwise", 9) ? d[5] : 1;
    d[1] = d[4] = 1;
    d[2] = d[3] = 0;
    if (d[0] == 1 && special > 0.3 && strncmp(c->impl, "winograd", 8)) {
      i[KERNEL] = i[STRIDE] = i[DILATION] = 1;
      i[PAD] = i[PAD + 2] = 0;
    }
  }
  d[5] = CLADE_MAX(d[5], (d[0] - 1) * d[4] + 1 - d[2] - d[3]);
}

/* Upper bound of the products: as if windows began everywhere. */
static double products(const op_case *c) {
  const conv v = conv_of(c);
  double n = (double)op_elements(&v.x) * c->i[ROWS];
  for (int k = 2; k < v.w.rank; k++) n *= (double)v.w.dim[k];
  return n;
}

static void shrink(op_case *c, double most) {
  int *i = c->i;
  while (products(c) > most) {
    int *largest = i[ROWS] > i[INNER] ? &i[ROWS] : &i[INNER];
    if (*largest < 2) largest = i[GROUPS] > 1 ? &i[GROUPS] : &i[IMAGES];
    *largest /= 2;
  }
}

/* More than one block of every parameter whatever the cache sizes: of image positions, inner channels and rows, for
 * a single compute unit. */
static void several_blocks(op_case *c, op_random *r) {
  int *i = c->i;
  const bool gemm = strcmp(c->impl, "gemm") == 0, flat = strcmp(c->impl, "flat") == 0;
  if (!gemm && !flat && strncmp(c->impl, "direct", 6) && strcmp(c->impl, "winograd")) return;
  c->told.units = 1;
  i[GROUPS] = i[IMAGES] = 1;
  i[INNER] = gemm ? (int)op_integer(r, 260, 290) : flat ? AMONG(r, 96, 112) : (int)op_integer(r, 3, 5);
  i[ROWS] = gemm ? (int)op_integer(r, 60, 80) : flat ? AMONG(r, 112, 128, 144) : (int)op_integer(r, 100, 150);
  i[SIZE] = (int)op_integer(r, 21, 24), i[SIZE + 1] = (int)op_integer(r, 19, 24);
  for (int k = 0; k < 2 && gemm; k++) {
    i[KERNEL + k] = 2;
    i[STRIDE + k] = i[DILATION + k] = 1;
    i[SIZE + k] = (int)op_integer(r, 17, 19);
    i[PAD + k] = i[PAD + k + 2] = 0;
  }
}

/* Many adjacent windows, more than a vector holds in a line. */
static void patches(op_case *c, op_random *r) {
  int *i = c->i;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = i[STRIDE + k] = AMONG(r, 2, 4);
    i[DILATION + k] = 1;
    i[PAD + k] = i[PAD + k + 2] = 0;
    i[SIZE + k] = AMONG(r, 8, 39, 68);
  }
}

/* For gemm: one group, sometimes with more positions than are folded or unfolded at once. */
static void folded(op_case *c, op_random *r) {
  int *i = c->i;
  i[GROUPS] = 1;
  if (c->small || c->gradient || c->form == CONV_SOLID || op_chance(r, 0.6)) return;
  if (op_chance(r, 0.5)) {
    patches(c, r);
    return;
  }
  const bool tall = op_chance(r, 0.5);
  i[IMAGES] = i[INNER] = 1;
  i[ROWS] = 2;
  i[SIZE] = tall ? 91 : 2;
  i[SIZE + 1] = tall ? 90 : 7000;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = tall || k ? CLADE_MIN(i[KERNEL + k], 3) : 1;
    i[DILATION + k] = 1;
    i[PAD + k] = i[PAD + k + 2] = 0;
  }
}

static bool is_last(const char *impl) { return strstr(impl, "_last") != NULL; }

/* For tiled products (src/op/product.c): few positions and a split inner axis, for the forward pass or, also with
 * strides, the data gradient. */
static void long_axis(op_case *c, op_random *r) {
  int *i = c->i;
  i[GROUPS] = i[IMAGES] = 1;
  i[INNER] = (int)op_integer(r, 1, 2), i[ROWS] = (int)op_integer(r, 1, 2);
  if (is_last(c->impl)) i[INNER] = i[ROWS] = 8; /* without padded channels, which are not split */
  i[op_chance(r, 0.5) ? INNER : ROWS] = (int)op_integer(r, 128, 140);
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = 3;
    i[STRIDE + k] = (int)op_integer(r, 1, 2);
    i[DILATION + k] = 1;
    i[SIZE + k] = (int)op_integer(r, 3, c->small ? 4 : 9);
    for (int side = 0; side < 2; side++) i[PAD + k + 2 * side] = (int)op_integer(r, 0, 2);
  }
}

conv conv_draw(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i;
  i[GROUPS] = op_chance(r, 0.3) ? AMONG(r, 2, 3, 5) : 1;
  i[IMAGES] = !c->gradient && op_chance(r, 0.05) ? 0 : (int)op_integer(r, 1, few ? 2 : 4);
  i[INNER] = few ? (int)op_integer(r, 1, 2) : op_chance(r, 0.1) ? AMONG(r, 33, 64, 100) : AMONG(r, 1, 2, 3, 4, 7, 16);
  i[ROWS] = few                 ? (int)op_integer(r, 1, 3)
            : op_chance(r, 0.1) ? AMONG(r, 48, 65, 100)
                                : AMONG(r, 1, 2, 6, 8, 9, 16, 17);
  if (op_chance(r, 0.1) || strncmp(c->impl, "depthwise", 9) == 0) {
    i[INNER] = i[ROWS] = 1;
    if (!few) i[GROUPS] = AMONG(r, 3, 16, 33);
  }
  const bool flat = strcmp(c->impl, "flat") == 0, one = flat || op_chance(r, 0.2);  /* 1 x 1 window without padding */
  const bool common = strcmp(c->impl, "depthwise_group") == 0 && op_chance(r, 0.5); /* with unrolled loops */
  const int taps = common ? AMONG(r, 3, 3, 5) : 0, step = common ? (int)op_integer(r, 1, 2) : 0;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = one ? 1 : few ? (int)op_integer(r, 1, 3) : AMONG(r, 1, 1, 2, 3, 3, 3, 5, 7);
    i[STRIDE + k] = op_chance(r, 0.5) ? 1 : (int)op_integer(r, 1, 4);
    i[DILATION + k] = op_chance(r, 0.7) ? 1 : (int)op_integer(r, 1, 4);
    i[SIZE + k] = few ? (int)op_integer(r, 1, 5) : AMONG(r, 1, 4, 7, 8, 10, 14, 16, 17, 28, 32, 33);
    for (int side = 0; side < 2; side++)
      i[PAD + k + 2 * side] = one || op_chance(r, 0.3) ? 0 : (int)op_integer(r, 0, i[KERNEL + k] + 1);
    if (op_chance(r, 0.3)) { /* "same" padding */
      i[STRIDE + k] = 1;
      i[PAD + k] = (i[KERNEL + k] - 1) / 2 * i[DILATION + k];
      i[PAD + k + 2] = (i[KERNEL + k] - 1) * i[DILATION + k] - i[PAD + k];
    }
    /* Sliding windows of five and seven taps. */
    if (strncmp(c->impl, "depthwise", 9) == 0 && !few && op_chance(r, 0.3)) {
      i[KERNEL + k] = AMONG(r, 5, 7);
      i[STRIDE + k] = AMONG(r, 1, 1, 2);
      i[DILATION + k] = 1;
      i[PAD + k] = i[PAD + k + 2] = i[KERNEL + k] / 2;
    }
    if (common) {
      i[KERNEL + k] = taps;
      i[STRIDE + k] = step;
      i[DILATION + k] = 1;
    }
    int least = (i[KERNEL + k] - 1) * i[DILATION + k] + 1 - i[PAD + k] - i[PAD + k + 2];
    i[SIZE + k] = CLADE_MAX(i[SIZE + k], least);
  }
  bool whole = strncmp(c->impl, "winograd", 8) == 0 && c->dtype == CLADE_F32 && winograd(c, r);
  bool fft = strcmp(c->impl, "fft") == 0 && c->dtype == CLADE_F32;
  if (fft) large(c, r);
  if (strcmp(c->impl, "gemm") == 0) folded(c, r);
  if (flat) points(c, r);
  if (strcmp(c->impl, "mma") == 0) words(c, r);
  for (int k = 0; k < 2 && strcmp(c->impl, "lines") == 0; k++) i[STRIDE + k] = op_chance(r, 0.8) ? 1 : 2;
  if (strcmp(c->impl, "lines") == 0 && !few) i[ROWS] = AMONG(r, 1, 2, 3, 6, 7, 8);
  const bool tiles = strcmp(c->impl, "simt") == 0 || strncmp(c->impl, "mma_warp", 8) == 0;
  /* A simulator needs seconds for the emulated unit. */
  const bool slow = c->small && strncmp(c->impl, "mma_warpgroup", 13) == 0;
  if (is_last(c->impl) && op_chance(r, 0.5)) { /* whole copies of 16 bytes, also in groups */
    i[INNER] = few ? 8 : AMONG(r, 8, 16, 24, 64);
    i[ROWS] = few ? (int)op_integer(r, 1, 8) : AMONG(r, 8, 16, 40, 65);
  }
  if (tiles && !c->gradient && !slow && op_chance(r, 0.15)) long_axis(c, r);
  if (c->tiles && c->form == CONV_PLANE) several_blocks(c, r);
  if (is_line(c)) one_high(i);
  if (c->form == CONV_SOLID) draw_depth(c, r);
  shrink(c, whole || (c->tiles && c->form == CONV_PLANE) ? 3e7
            : !c->light || fft                           ? 4e6
            : c->form == CONV_PLANE                      ? 2e5
                                                         : 3e4);
  snprintf(c->note, sizeof c->note, "stride %d %d pads %d %d %d %d dilation %d %d groups %d", i[STRIDE], i[STRIDE + 1],
           i[PAD], i[PAD + 1], i[PAD + 2], i[PAD + 3], i[DILATION], i[DILATION + 1], i[GROUPS]);
  return conv_of(c);
}

void conv_common(op_case *c, op_random *r) {
  int *i = c->i, taps = (int)op_integer(r, 2, 3), pad = op_chance(r, 0.6) ? 0 : 1;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = taps;
    i[STRIDE + k] = 2;
    i[DILATION + k] = 1;
    i[PAD + k] = pad;
    i[PAD + k + 2] = op_chance(r, 0.7) ? pad : 1;
    i[SIZE + k] = (int)op_integer(r, 3, c->small || c->gradient ? 6 : 70);
  }
  snprintf(c->note, sizeof c->note, "%d x %d stride 2 pads %d %d %d %d", taps, taps, i[PAD], i[PAD + 1], i[PAD + 2],
           i[PAD + 3]);
}

void conv_program_add(op_case *c, op_random *r, const clade_shape *result) {
  c->i[PROGRAM] = 1;
  c->i[HALVED] = c->dtype == CLADE_F32 && op_chance(r, 0.5);
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = CLADE_SHAPE(result->dim[1], 1, 1), .low = -2, .high = 2};
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = *result, .low = -2, .high = 2};
}

bool conv_has_program(const op_case *c) { return c->i[PROGRAM]; }

static clade__elt program(const op_case *c) {
  uint8_t type = (uint8_t)c->dtype;
  uint16_t add = clade__elt_by_name("add")->number;
  clade__elt p;
  memset(&p, 0, sizeof p);
  p.n_in = 3;
  p.n_insn = c->i[HALVED] ? 4 : 3;
  for (int i = 0; i < 3; i++) p.in_dtype[i] = type;
  p.insn[0] = (clade__elt_insn){.fn = add, .dtype = type, .arg = {0, 1}};
  p.insn[1] = (clade__elt_insn){.fn = add, .dtype = type, .arg = {3, 2}};
  p.insn[2] = (clade__elt_insn){.fn = clade__elt_by_name("relu")->number, .dtype = type, .arg = {4}};
  if (c->i[HALVED])
    p.insn[3] = (clade__elt_insn){.fn = clade__elt_by_name("cast")->number, .dtype = CLADE_BF16, .arg = {5}};
  return p;
}

void conv_program_reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t channels = out->shape.dim[1], pixels = out->shape.dim[2] * out->shape.dim[3];
  for (int64_t i = 0; i < out->n; i++) {
    double more = in[2].v[i / pixels % channels] + in[3].v[i];
    out->bound[i] += 0x1p-22 * (fabs(out->v[i]) + fabs(more) + 4);
    out->v[i] = fmax(0, out->v[i] + more);
  }
  if (c->i[HALVED]) out->dtype = CLADE_BF16;
}

clade__conv_attrs conv_attrs(const op_case *c, const conv *v) {
  clade__conv_attrs at;
  memset(&at, 0, sizeof at);
  at.window = v->window;
  at.groups = (int32_t)v->groups;
  if (c->i[PROGRAM]) at.epilogue = program(c);
  return at;
}

typedef struct place {
  int64_t x, w, y;
} place;

/* Depth, height and width; 1 if absent. */
static void extents(const clade_shape *s, int64_t size[3]) {
  for (int k = 0; k < 3; k++) size[k] = k + s->rank < 5 ? 1 : s->dim[k + s->rank - 3];
}

/* Source position of a tap for the result at `at`; -1: padding. */
static int64_t source_of(const conv *v, const int64_t size[3], const int64_t at[3], const int64_t tap[3]) {
  const clade__window *w = &v->window;
  const int stride[] = {v->depth.stride, w->stride[0], w->stride[1]}, pad[] = {v->depth.pad[0], w->pad[0], w->pad[1]};
  const int dilation[] = {v->depth.dilation, w->dilation[0], w->dilation[1]};
  int64_t place = 0;
  for (int k = 0; k < 3; k++) {
    int64_t p = at[k] * stride[k] - pad[k] + tap[k] * dilation[k];
    if (p < 0 || p >= size[k]) return -1;
    place = place * size[k] + p;
  }
  return place;
}

/* Calls fn for each product of the convolution with the indices of x, w and y. */
static void each_product(const conv *v, void (*fn)(void *, place), void *user) {
  int64_t x[3], w[3], y[3], out = v->w.dim[0] / v->groups, in = v->w.dim[1], results = op_elements(&v->y);
  extents(&v->x, x), extents(&v->w, w), extents(&v->y, y);
  const int64_t volume = x[0] * x[1] * x[2], taps = w[0] * w[1] * w[2];
  for (int64_t i = 0; i < results; i++) {
    const int64_t at[] = {i / (y[1] * y[2]) % y[0], i / y[2] % y[1], i % y[2]}, plane = i / (y[0] * y[1] * y[2]);
    const int64_t row = plane % v->w.dim[0], first = plane / v->w.dim[0] * v->x.dim[1] + row / out * in;
    for (int64_t t = 0; t < taps; t++) {
      const int64_t from = source_of(v, x, at, (const int64_t[]){t / (w[1] * w[2]), t / w[2] % w[1], t % w[2]});
      for (int64_t c = 0; from >= 0 && c < in; c++)
        fn(user, (place){(first + c) * volume + from, (row * in + c) * taps + t, i});
    }
  }
}

typedef struct sums {
  int want;
  const double *x, *w, *y;
  op_array *out;
  double *count;
} sums;

static void add(void *user, place p) {
  sums *s = user;
  int64_t to = s->want == CONV_X ? p.x : s->want == CONV_W ? p.w : p.y;
  double a = s->want == CONV_X ? s->y[p.y] : s->x[p.x], b = s->want == CONV_W ? s->y[p.y] : s->w[p.w];
  s->out->v[to] += a * b;
  s->out->bound[to] += fabs(a * b);
  s->count[to]++;
}

void conv_reference(const conv *v, int want, const double *x, const double *w, const double *y, op_array *out) {
  double *count = calloc((size_t)out->n + 1, sizeof *count);
  if (!count) abort();
  each_product(v, add, &(sums){want, x, w, y, out, count});
  /* in 3D, partial results of slices are stored before they are added */
  const double stored = want == CONV_X && v->x.rank == 5 ? conv_stored_epsilon(out->dtype) : 0;
  for (int64_t i = 0; i < out->n; i++) out->bound[i] *= (count[i] + 4) * 0x1p-24 + stored;
  free(count);
}
