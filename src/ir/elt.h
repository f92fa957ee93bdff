/* Elementwise programs: a small data program over the permanent numbers of eltwise.def. One serves as an elementwise
 * node, as what several of them were fused into, and as the epilogue of another op, which computes it in its store. */
#ifndef CLADE_ELT_H
#define CLADE_ELT_H

#include "base/base.h"

enum { CLADE__ELT_INSNS = 8, CLADE__ELT_INPUTS = 8, CLADE__ELT_PARAMS = 2 };

typedef struct clade__elt_insn {
  uint16_t fn;    /* number in eltwise.def */
  uint8_t wrt;    /* 0: the function; 1, 2, 3: its derivative by that operand */
  uint8_t dtype;  /* of the result */
  uint8_t arg[3]; /* below n_in: an input; else n_in + an earlier instruction */
  uint8_t reserved;
  float param[CLADE__ELT_PARAMS];
} clade__elt_insn;

/* The result is the last instruction's; with none, input 0. In an epilogue input 0 is the op's own result. */
typedef struct clade__elt {
  uint8_t n_in, n_insn, reserved[6];
  uint8_t in_dtype[CLADE__ELT_INPUTS];
  clade__elt_insn insn[CLADE__ELT_INSNS];
} clade__elt;

/* Puts `inner` in place of input `at` of `outer`: the program that computes both. map[i] is, for each input of the
 * result, its number among outer's inputs (below 8) or 8 + its number among inner's. Equal inputs are not merged here.
 * false: too long, or too many inputs. */
bool clade__elt_compose(const clade__elt *outer, int at, const clade__elt *inner, clade__elt *out,
                        uint8_t map[CLADE__ELT_INPUTS]);

#endif
