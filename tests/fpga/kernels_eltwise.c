/* The interpreter of elementwise programs: every function listed in fpga/interface.def, every derivative, and
 * broadcast operands. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"

enum { FLOAT, INT, BOOL };

static const struct listed {
  unsigned number;
  int operands, integers;
} listed[] = {
#define FUNCTION(number, operands, integers) {number, operands, integers},
#include "interface.def"
};

static clade_dtype dtype_of(int kind) { return kind == FLOAT ? CLADE_F32 : kind == INT ? CLADE_I32 : CLADE_BOOL; }
static double number_of(int kind, uint32_t word) {
  float real;
  int32_t whole;
  memcpy(&real, &word, 4);
  memcpy(&whole, &word, 4);
  return kind == FLOAT ? (double)real : (double)whole;
}
static uint32_t word_of(int kind, double v) {
  float real = (float)v;
  int32_t whole = kind == FLOAT ? 0 : (int32_t)v;
  uint32_t word;
  memcpy(&word, kind == FLOAT ? (const void *)&real : &whole, 4);
  return word;
}

/* One instruction with up to three operands of random shapes. */
typedef struct trial {
  const clade__elt_row *row;
  int wrt, in[3], out;
} trial;

static void run(const trial *t) {
  cl_int4 size = {{1 + (int)draw(3), 1 + (int)draw(3), 1 + (int)draw(4), (int)draw(30)}}, stride[4];
  size_t n = (size_t)(size.s[0] * size.s[1] * size.s[2] * size.s[3]), length[4];
  cl_int8 code = {{instruction(t->row->number, t->wrt, 0, 1, 2, t->in[t->row->number == 273], t->out)}};
  cl_float16 param = {{t->row->param[0], t->row->param[1]}};
  cl_int operands = t->row->arity;
  uint32_t *word[4], *y = malloc(4 * n + 4);
  buffer e[4], out = buffer_new(n, 4, NULL);
  memset(stride, 0, sizeof stride);
  for (int i = 0; i < 4; i++) {
    length[i] = 1;
    for (int j = 3; j >= 0; j--) {
      if (draw(4) == 0) continue;
      stride[i].s[j] = (cl_int)length[i];
      length[i] *= (size_t)size.s[j];
    }
    word[i] = calloc(length[i] + 1, 4);
    int kind = i < 3 ? t->in[i] : FLOAT;
    for (size_t j = 0; j < length[i]; j++) {
      double v = kind == BOOL ? draw(2) : draw_real(t->row->low, t->row->high);
      word[i][j] = word_of(kind, v);
    }
    e[i] = buffer_new(length[i], 4, word[i]);
  }
  kernels_launch("eltwise", (const void *const[]){&e[0], &stride[0], &e[1], &stride[1], &e[2], &stride[2], &e[3],
                                                  &stride[3], &out, &size, &operands, &code, &param});
  buffer_read(&out, y);
  clade__elt p;
  memset(&p, 0, sizeof p);
  p.n_in = (uint8_t)t->row->arity;
  p.n_insn = 1;
  p.insn[0] = (clade__elt_insn){.fn = t->row->number,
                                .wrt = (uint8_t)t->wrt,
                                .dtype = (uint8_t)dtype_of(t->out),
                                .arg = {0, 1, 2},
                                .param = {t->row->param[0], t->row->param[1]}};
  for (int i = 0; i < p.n_in; i++) p.in_dtype[i] = (uint8_t)dtype_of(t->in[i]);
  for (size_t at = 0; at < n; at++) {
    double in[3];
    for (int i = 0; i < 3; i++) {
      size_t rest = at, from = 0;
      for (int j = 3; j >= 0; j--) {
        from += rest % (size_t)size.s[j] * (size_t)stride[i].s[j];
        rest /= (size_t)size.s[j];
      }
      in[i] = number_of(t->in[i], word[i][from]);
    }
    double want = clade__elt_eval(&p, in), got = number_of(t->out, y[at]);
    double ulp = t->wrt ? fmax(t->row->ulp, 16) : t->row->ulp;
    near(t->row->name, at, got, want, ulp * 0x1p-23 * fmax(fabs(want), t->wrt ? 1e-2 : t->row->floor) + 1e-37);
  }
  for (int i = 0; i < 4; i++) {
    buffer_free(&e[i]);
    free(word[i]);
  }
  buffer_free(&out);
  free(y);
}

static void run_kind(const clade__elt_row *row, int kind, int wrt) {
  trial t = {row, wrt, {kind, kind, kind}, kind};
  if (row->kind == CLADE__ELT_COMPARE) t.out = BOOL;
  if (row->kind == CLADE__ELT_SELECT) t.in[0] = BOOL;
  run(&t);
}

void test_eltwise(void) {
  static const int casts[][2] = {{FLOAT, INT}, {FLOAT, BOOL}, {INT, FLOAT}, {INT, BOOL}, {BOOL, FLOAT}, {BOOL, INT}};
  for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
    const clade__elt_row *row = clade__elt_by_number(listed[i].number);
    REQUIRE(row != NULL, "no function has the number %u", listed[i].number);
    for (int round = 0; round < 3; round++) {
      if (row->kind == CLADE__ELT_CAST) {
        for (int k = 0; k < 6; k++) run(&(trial){row, 0, {casts[k][0]}, casts[k][1]});
        continue;
      }
      run_kind(row, FLOAT, 0);
      if (listed[i].integers) run_kind(row, INT, 0);
      for (int by = 1; by <= 3; by++)
        if (listed[i].operands >> (by - 1) & 1) run_kind(row, FLOAT, by);
    }
  }
}
