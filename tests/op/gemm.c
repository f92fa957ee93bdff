/* Matrix products: transposed, batched with broadcasting, scaled, with a bias and with an epilogue; and with
 * operands that are slices of larger, permuted values. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "op/move/view.h"
#include "op_test.h"

/* Parameters in op_case.i:
 * - BIAS: a third input, through clade_gemm.
 * - EPILOGUE: in the node itself.
 * - VIEWED, per operand: the operand is a view of an input.
 * - ORDER: the operand axis of each input axis, three bits each.
 * - BEFORE, AFTER: excluded elements of the input, two bits each.
 * - TIMES: repetition of an input axis of length 1, four bits each; 0: none. */
enum {
  TRANS_A,
  TRANS_B,
  BIAS,
  EPILOGUE,
  VIEWED,
  ORDER = VIEWED + 2,
  BEFORE = ORDER + 2,
  AFTER = BEFORE + 2,
  TIMES = AFTER + 2
};
enum { ALPHA, BETA };
enum { WHOLE, VIEWS };
static const op_form forms[] = {{"whole", NULL}, {"views", NULL}, {NULL, NULL}};

static clade_dtype result_type(clade_dtype t) { return clade__dtype_row(t)->product; }

static clade_shape matrix(clade_shape batch, int64_t rows, int64_t columns, bool trans) {
  batch.dim[batch.rank++] = trans ? columns : rows;
  batch.dim[batch.rank++] = trans ? rows : columns;
  return batch;
}

static int digit(int number, int at, int bits) { return number >> at * bits & ((1 << bits) - 1); }

/* Makes an operand a view of a larger input. Its last axis stays last. */
static void draw_view(op_case *c, op_random *r, int operand) {
  enum { MOST = 1 << 18 };
  const clade_shape part = c->in[operand].shape;
  clade_shape *whole = &c->in[operand].shape;
  int order[CLADE_MAX_RANK];
  for (int i = 0; i < part.rank; i++) order[i] = i;
  for (int i = part.rank - 2; i > 0; i--) {
    int k = (int)op_integer(r, 0, i), other = order[i];
    order[i] = order[k];
    order[k] = other;
  }
  c->i[VIEWED + operand] = op_elements(&part) > 0;
  for (int i = 0; i < part.rank && c->i[VIEWED + operand]; i++) {
    whole->dim[i] = part.dim[order[i]];
    c->i[ORDER + operand] |= order[i] << 3 * i;
    /* Not along rows or columns. */
    if (order[i] >= part.rank - 2 || part.dim[order[i]] > 15 || op_chance(r, 0.7)) continue;
    c->i[TIMES + operand] |= (int)part.dim[order[i]] << 4 * i;
    whole->dim[i] = 1;
  }
  for (int i = 0; i < part.rank && c->i[VIEWED + operand]; i++) {
    int before = (int)op_integer(r, 0, 3), after = (int)op_integer(r, 0, 3);
    if (digit(c->i[TIMES + operand], i, 4)) continue;
    if (op_elements(whole) / whole->dim[i] * (whole->dim[i] + before + after) > (c->gradient ? 40 : MOST)) continue;
    c->i[BEFORE + operand] |= before << 2 * i;
    c->i[AFTER + operand] |= after << 2 * i;
    whole->dim[i] += before + after;
  }
}

/* The operand's view of the input. */
static clade__view view_of(const op_case *c, const clade_shape *input, int operand) {
  clade__view whole = clade__view_whole(input), v = whole;
  for (int i = 0; c->i[VIEWED + operand] && i < input->rank; i++) {
    int to = digit(c->i[ORDER + operand], i, 3), before = digit(c->i[BEFORE + operand], i, 2);
    int times = digit(c->i[TIMES + operand], i, 4);
    v.shape.dim[to] = times ? times : input->dim[i] - before - digit(c->i[AFTER + operand], i, 2);
    v.stride[to] = times ? 0 : whole.stride[i];
    v.offset += before * whole.stride[i];
  }
  return v;
}

static int64_t place_in(const clade__view *v, int64_t element) {
  int64_t index[CLADE_MAX_RANK], at = v->offset;
  op_unravel(&v->shape, element, index);
  for (int i = 0; i < v->shape.rank; i++) at += index[i] * v->stride[i];
  return at;
}

/* Elements outside of the view must not be read: they are NaN. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  (void)r;
  for (int i = 0; i < 2; i++) {
    if (!c->i[VIEWED + i] || c->gradient || !op_is_float(c->dtype)) continue;
    const clade__view v = view_of(c, &in[i].shape, i);
    bool *read = calloc((size_t)in[i].n, sizeof *read);
    for (int64_t e = 0, n = op_elements(&v.shape); read && e < n; e++) read[place_in(&v, e)] = true;
    for (int64_t e = 0; read && e < in[i].n; e++)
      if (!read[e]) in[i].v[e] = NAN;
    free(read);
  }
}

/* More than one block of every parameter whatever the cache sizes: wide or deep, for a single compute unit. */
static void several_blocks(op_case *c, op_random *r, int64_t *m, int64_t *k, int64_t *n) {
  const bool wide = c->number % 3 == 0, words = strncmp(c->impl, "mma", 3) == 0;
  c->told = (op_told){1, c->told.second_cache, 1 << 20, c->told.group};
  *m = op_integer(r, 385, 430);
  *k = wide ? op_integer(r, 260, 290) : words ? op_integer(r, 1030, 1060) : op_integer(r, 390, 420);
  *n = !wide ? op_integer(r, 33, 64) : words ? op_integer(r, 1025, 1060) : op_integer(r, 260, 290);
}

/* Cases for `few`: few rows or columns. The other operand lies along the inner axis, along it and LONG enough for
 * all work-items of a group, or across it. Each type has a kernel for each of these and for numbers of rows. */
enum { ALONG, LONG, BESIDE };
static int draw_few(op_case *c, op_random *r, bool batched, int64_t *m, int64_t *k, int64_t *n) {
  static const int most[][3] = {{4, 1, 16}, {16, 4, 8}, {8, 16, 4}};
  const int type = c->dtype == CLADE_F16 ? 1 : c->dtype == CLADE_BF16 ? 2 : 0;
  const bool brief = c->gradient || (c->small && batched);
  const int way = brief ? 2 * (int)op_integer(r, 0, 1) : (int)op_integer(r, 0, 2);
  const int rows = c->gradient || (c->small && way == LONG) ? 4 : most[type][way];
  const bool swapped = op_chance(r, 0.3), little = c->small || c->gradient || (batched && way == LONG);
  const int64_t few = op_integer(r, rows > 4 ? rows / 2 + 1 : rows > 1 ? 2 : 1, rows);
  int64_t many = op_integer(r, few, few + (little ? 3 : batched ? 70 : 300));
  if (way == LONG) /* 9 times: several parts. */
    *k = op_integer(r, 1024, c->small ? 1030 : 1100) * (!c->small && op_chance(r, 0.2) ? 9 : 1);
  if (way == BESIDE && !little && op_chance(r, 0.3)) *k = op_integer(r, 512, 1100);   /* LONG as well */
  if (!little && op_chance(r, 0.4)) *k = (*k + 7) / 8 * 8, many = (many + 7) / 8 * 8; /* runs of 16 bytes */
  *(swapped ? n : m) = few;
  *(swapped ? m : n) = many;
  c->i[TRANS_A] = swapped ? way == BESIDE : op_chance(r, 0.2);
  c->i[TRANS_B] = swapped ? op_chance(r, 0.8) : way != BESIDE;
  return way;
}

static void draw(op_case *c, op_random *r) {
  bool real = op_is_float(c->dtype), warp = strncmp(c->impl, "mma_warp", 8) == 0;
  int64_t most = c->small ? 8 : c->gradient ? 5 : 150;
  int64_t m = op_draw_extent(r, c, most), k = op_draw_extent(r, c, most), n = op_draw_extent(r, c, most);
  if (!c->small && !c->gradient && op_chance(r, 0.08)) k = op_integer(r, 500, 700); /* more than one slice */
  clade_shape batch = {0}, a = {0}, b = {0};
  if (op_chance(r, 0.33)) {
    batch = op_draw_shape(r, c, 1, 4, c->gradient ? 4 : 12);
    a = op_draw_broadcast(r, &batch);
    b = op_chance(r, 0.5) ? batch : op_draw_broadcast(r, &batch);
    if (op_chance(r, 0.5)) a = batch;
  }
  c->i[TRANS_A] = op_chance(r, 0.5);
  c->i[TRANS_B] = op_chance(r, 0.5);
  /* for `dot`: few rows or columns, and both operands along the inner axis */
  if (c->number % 4 == 1 || strcmp(c->impl, "dot") == 0) {
    *(op_chance(r, 0.5) ? &m : &n) = op_integer(r, 1, c->small || c->gradient ? 4 : 32);
    c->i[TRANS_A] = op_chance(r, 0.2), c->i[TRANS_B] = true;
  }
  const bool tiles = warp || strcmp(c->impl, "simt") == 0;
  /* Runs of adjacent elements. */
  if (tiles && op_chance(r, 0.1)) m = (m + 7) / 8 * 8, k = (k + 7) / 8 * 8, n = (n + 7) / 8 * 8;
  const bool groups = strncmp(c->impl, "mma_warpgroup", 13) == 0,
             slow = groups && c->small;                                           /* a simulator needs seconds */
  if (groups && c->tiles) m = op_integer(r, 65, 140), n = op_integer(r, 65, 270); /* several blocks of 64 columns */
  if (tiles && !c->gradient && !slow && op_chance(r, 0.15)) {                     /* parts of the inner axis */
    const int64_t widest = c->small || batch.rank ? 4 : 70;
    m = op_integer(r, 1, widest), n = op_integer(r, 1, widest), k = op_integer(r, 512, c->small ? 520 : 1100);
  }
  const bool few = strcmp(c->impl, "few") == 0;
  const int way = few ? draw_few(c, r, batch.rank > 0, &m, &k, &n) : LONG;
  if (strcmp(c->impl, "vec_bare") == 0) { /* whole panels of columns, and few steps */
    k = op_integer(r, 1, c->small ? 8 : 80), n = c->small || c->gradient ? 64 : 64 * op_integer(r, 1, 2);
    c->i[TRANS_A] = c->i[TRANS_B] = false;
    if (!c->small && !c->gradient && c->number % 20 == 5) m = op_integer(r, 900, 1000), k = 80; /* more than one part */
  }
  if (strcmp(c->impl, "vec_panels") == 0 && !c->small && !c->gradient && c->number % 20 == 5)
    m = 24 * op_integer(r, 0, 2) + 16, n = op_integer(r, 512, 600); /* tiles of eight rows */
  if (strcmp(c->impl, "vec_panels") == 0 && !c->small && !c->gradient && c->number % 5 == 2)
    m = 1, k = op_integer(r, 1, 1300); /* one row, in several parts */
  const bool blocks =
      (strncmp(c->impl, "vec", 3) == 0 && strcmp(c->impl, "vec_bare")) || (strncmp(c->impl, "mma", 3) == 0 && !warp);
  if (blocks && !c->small && !c->light && !c->gradient && c->number % 20 == 9) /* several blocks of each part's rows */
    m = op_integer(r, 4200, 4300), k = op_integer(r, 1, 16), n = op_integer(r, 33, 64);
  if (blocks && !c->small && !c->light && !c->gradient &&
      c->number % 20 == 13) { /* also of columns, without sharing between units */
    c->told = (op_told){1, 32 << 10, 1 << 20, c->told.group};
    m = op_integer(r, 110, 150), k = op_integer(r, 60, 90), n = op_integer(r, 2100, 2300);
  }
  if (blocks && c->tiles && c->number % 3 < 2) several_blocks(c, r, &m, &k, &n);
  if (warp && op_chance(r, 0.5)) m = (m + 7) / 8 * 8, k = (k + 7) / 8 * 8, n = (n + 7) / 8 * 8; /* copies of 16 bytes */
  if (strcmp(c->impl, "mma_tile_panels") == 0 && c->small) k = 64; /* whole tiles along the inner axis */
  if (strcmp(c->impl, "mma_panels_bare") == 0) { /* rows of whole words, more than a work-item takes */
    if (!c->small && !c->gradient && c->number % 20 == 5) m = op_integer(r, 259, 600);
    k = (CLADE_MAX(k, 1) + 3) / 4 * 4, c->i[TRANS_A] = false;
  }
  if (strstr(c->impl, "loose")) c->differentiable = 0; /* gradients are as inexact as the results */
  const bool in_blocks =
      c->dtype == CLADE_F32 && (!strcmp(c->impl, "vec_blocks") || (!strcmp(c->impl, "ref") && op_chance(r, 0.2)));
  if (in_blocks) { /* weights with rows of whole blocks */
    k = 32 * op_integer(r, op_chance(r, 0.9), c->small || c->gradient ? 1 : 5),
    c->i[TRANS_A] &= strcmp(c->impl, "ref") == 0;
    c->i[TRANS_B] = true;
    /* few rows, or more */
    if (c->small && !c->gradient && (c->form == VIEWS || c->number % 3 == 0))
      m = op_integer(r, 13, 14), n = op_integer(r, 1, 4);
    else if (op_chance(r, 0.5))
      m = op_integer(r, 1, c->small || c->gradient ? 4 : 12);
  }
  c->f[ALPHA] = real && op_chance(r, 0.25) ? -0.75 : 1;
  c->n_in = 2;
  bool bytes = !real && result_type(c->dtype) != c->dtype;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = matrix(a, m, k, c->i[TRANS_A]), .low = -2, .high = 2};
  c->in[1] = (op_input){.dtype = c->dtype, .shape = matrix(b, k, n, c->i[TRANS_B]), .low = -2, .high = 2};
  if (bytes) { /* the full range */
    c->in[0].low = c->dtype == CLADE_U8 ? 0 : -128, c->in[0].high = c->in[0].low + 255;
    c->in[1].dtype = CLADE_I8, c->in[1].low = -128, c->in[1].high = 127;
  }
  if (in_blocks) c->in[1].dtype = c->number / 3 % 2 ? CLADE_Q4_0 : CLADE_Q8_0, c->differentiable &= ~2u;
  const bool bare = warp && (c->i[TRANS_A] || c->i[TRANS_B]); /* each transposition has its own kernel already */
  const bool views = c->form == VIEWS && !c->gradient;        /* views in the node itself, too */
  c->i[BIAS] = op_chance(r, 0.25) && !bare && !views && way != BESIDE;
  c->f[BETA] = real && c->i[BIAS] && op_chance(r, 0.1) ? 1.5 : 1;
  c->i[EPILOGUE] = real && !c->gradient && !c->i[BIAS] && !bare && way != ALONG && op_chance(r, 0.3);
  if (c->i[BIAS] || c->i[EPILOGUE]) {
    clade_shape both = {0}, bias;
    if (clade__broadcast_shape("test", &a, &b, &both) == CLADE_OK) bias = matrix(both, m, n, false);
    c->in[c->n_in++] =
        (op_input){.dtype = result_type(c->dtype), .shape = op_draw_broadcast(r, &bias), .low = -2, .high = 2};
  }
  if (c->form == VIEWS) {
    const bool panels = strstr(c->impl, "panels") || clade__has_blocks(c->in[1].dtype),
               second = !panels && op_chance(r, 0.7);
    if (panels || !second || op_chance(r, 0.7)) draw_view(c, r, 0);
    if (second) draw_view(c, r, 1);
  }
  snprintf(c->note, sizeof c->note, "trans %d %d bias %d epilogue %d views %d %d", c->i[TRANS_A], c->i[TRANS_B],
           c->i[BIAS], c->i[EPILOGUE], c->i[VIEWED], c->i[VIEWED + 1]);
}

/* relu(product + input 1) */
static clade__elt program(clade_dtype t) {
  clade__elt p;
  memset(&p, 0, sizeof p);
  p.n_in = 2;
  p.n_insn = 2;
  p.in_dtype[0] = p.in_dtype[1] = (uint8_t)t;
  p.insn[0] = (clade__elt_insn){.fn = clade__elt_by_name("add")->number, .dtype = (uint8_t)t, .arg = {0, 1}};
  p.insn[1] = (clade__elt_insn){.fn = clade__elt_by_name("relu")->number, .dtype = (uint8_t)t, .arg = {2}};
  return p;
}

/* An operand in a graph that is differentiated. */
static clade_val operand_of(const op_case *c, clade_graph *g, const clade_val *in, int operand) {
  const clade_shape *whole = &c->in[operand].shape;
  clade_shape begin = {.rank = whole->rank}, size = begin;
  int axes[CLADE_MAX_RANK];
  if (!c->i[VIEWED + operand]) return in[operand];
  for (int i = 0; i < whole->rank; i++) {
    begin.dim[i] = digit(c->i[BEFORE + operand], i, 2);
    size.dim[i] = whole->dim[i] - begin.dim[i] - digit(c->i[AFTER + operand], i, 2);
    axes[digit(c->i[ORDER + operand], i, 3)] = i;
  }
  const clade_val turned = clade_transpose(g, clade_slice(g, in[operand], begin, size), whole->rank, axes);
  return clade_broadcast(g, turned, view_of(c, whole, operand).shape);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  if (c->i[EPILOGUE] || (c->form == VIEWS && !c->gradient)) {
    clade__gemm_attrs at;
    memset(&at, 0, sizeof at);
    at.trans_a = c->i[TRANS_A];
    at.trans_b = c->i[TRANS_B];
    at.alpha = (float)c->f[ALPHA];
    if (c->i[EPILOGUE]) at.epilogue = program(result_type(c->dtype));
    for (int i = 0; i < 2; i++) {
      if (!c->i[VIEWED + i]) continue;
      const clade__view v = view_of(c, &c->in[i].shape, i);
      at.shape[i] = v.shape;
      memcpy(at.stride[i], v.stride, sizeof v.stride);
      at.offset[i] = v.offset;
    }
    out[0] = clade_node_add(g, &clade__op_gemm, NULL, &at, c->n_in, in, NULL);
    return;
  }
  const clade_val a = operand_of(c, g, in, 0), b = operand_of(c, g, in, 1);
  clade_gemm_opt opt = {CLADE_GEMM_OPT, .b = b, .trans_a = c->i[TRANS_A], .trans_b = c->i[TRANS_B]};
  if (c->f[ALPHA] < 0) opt.alpha = (float)c->f[ALPHA];
  if (c->i[BIAS]) opt.bias = in[2], opt.beta = c->f[BETA] > 1 ? (float)c->f[BETA] : 1;
  out[0] = clade_gemm_(g, a, &opt);
}

/* Copies an operand as the product reads it; the caller frees its values. */
static op_array seen(const op_case *c, const op_array *in, int operand) {
  const clade__view v = view_of(c, &in[operand].shape, operand);
  op_array x = {.dtype = in[operand].dtype, .shape = v.shape, .n = op_elements(&v.shape)};
  x.v = malloc((size_t)CLADE_MAX(x.n, 1) * sizeof *x.v);
  for (int64_t e = 0; x.v && e < x.n; e++) x.v[e] = in[operand].v[place_in(&v, e)];
  if (!x.v) abort();
  return x;
}

/* The matrix of x for the result's batch `index`. */
static const double *matrix_at(const op_array *x, const clade_shape *y, const int64_t *index) {
  clade_shape own = x->shape, to = *y;
  int64_t at[CLADE_MAX_RANK] = {0};
  int rank = y->rank;
  for (int i = 0; i < rank - 2; i++) at[i] = index[i];
  to.dim[rank - 2] = own.dim[own.rank - 2];
  to.dim[rank - 1] = own.dim[own.rank - 1];
  return x->v + op_broadcast_at(&own, &to, at);
}

/* Error of the products by units that is not the op's. Operands in tf32 have ten bits, and are rounded by mma and
 * truncated by wgmma. Sums of f8 have 14 bits; 32 or 128 products are added by them. */
static double loose_bound(const op_case *c) {
  const bool warps = c->took && strcmp(c->took, "mma_warp_loose") == 0;
  if (!warps && (!c->took || strcmp(c->took, "mma_warpgroup_loose"))) return 0;
  if (c->dtype == CLADE_F32) return warps ? 0x1.001p-10 : 0x1.001p-9;
  return c->imitated ? 0 : (warps ? 33 : 136) * 0x1p-13;
}

static double stored_epsilon(clade_dtype t) { return op_is_float(t) && t != CLADE_F32 ? clade__dtype_unit(t) : 0; }

static void reference(const op_case *c, const op_array *in, op_array *out) {
  bool ta = c->i[TRANS_A], tb = c->i[TRANS_B], real = op_is_float(c->dtype);
  op_array left = seen(c, in, 0), right = seen(c, in, 1);
  clade_shape a = left.shape, b = right.shape, y = {0};
  int64_t m = a.dim[a.rank - (ta ? 1 : 2)], k = a.dim[a.rank - (ta ? 2 : 1)], n = b.dim[b.rank - (tb ? 2 : 1)];
  a.rank -= 2, b.rank -= 2;
  clade__broadcast_shape("test", &a, &b, &y);
  y = matrix(y, m, n, false);
  op_result(out, result_type(c->dtype), y);
  for (int64_t o = 0; o < out->n; o++) {
    int64_t index[CLADE_MAX_RANK];
    double sum = 0, absolute = 0;
    op_unravel(&y, o, index);
    const double *row = k ? matrix_at(&left, &y, index) + index[y.rank - 2] * (ta ? 1 : k) : NULL;
    const double *column = k ? matrix_at(&right, &y, index) + index[y.rank - 1] * (tb ? k : 1) : NULL;
    for (int64_t i = 0; i < k; i++) {
      double term = row[i * (ta ? m : 1)] * column[i * (tb ? 1 : n)] * c->f[ALPHA];
      sum += term, absolute += fabs(term);
    }
    out->v[o] = sum;
    out->bound[o] = real ? ((double)(k + 4) * 0x1p-24 + loose_bound(c)) * absolute : 0;
    if (c->n_in < 3) continue;
    double bias = in[2].v[op_broadcast_at(&in[2].shape, &y, index)] * c->f[BETA];
    if (c->i[BIAS]) /* the product and beta times the bias may be stored and rounded first */
      out->bound[o] += stored_epsilon(out->dtype) * (fabs(sum) + (c->f[BETA] > 1 ? fabs(bias) : 0) + 1e-4);
    if (real) out->bound[o] += 0x1p-23 * (fabs(sum) + fabs(bias));
    out->v[o] = sum + bias;
    if (c->i[EPILOGUE]) out->v[o] = fmax(0, out->v[o]);
  }
  free(left.v);
  free(right.v);
}

const op_test op_test_gemm = {"gemm", op_factor_types, draw, build, reference, fill, 0, forms};
