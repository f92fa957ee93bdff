/* Elementwise programs: short instruction sequences over the functions of eltwise.def. They describe elementwise
 * nodes, fused nodes, and epilogues, which another op computes when it stores its result. */
#ifndef CLADE_ELT_H
#define CLADE_ELT_H

#include "base/base.h"

enum { CLADE__ELT_INSNS = 8, CLADE__ELT_INPUTS = 8, CLADE__ELT_PARAMS = 2 };

typedef struct clade__elt_insn {
  uint16_t fn;    /* function number in eltwise.def */
  uint8_t wrt;    /* 0: the function itself; 1, 2, 3: its derivative by that operand */
  uint8_t dtype;  /* of the result */
  uint8_t arg[3]; /* below n_in: an input; otherwise n_in + index of an earlier instruction */
  uint8_t reserved;
  float param[CLADE__ELT_PARAMS];
} clade__elt_insn;

/* The result is the last instruction's, or input 0 if there are none. In an epilogue, input 0 is the op's result. */
typedef struct clade__elt {
  uint8_t n_in, n_insn, reserved[6];
  uint8_t in_dtype[CLADE__ELT_INPUTS];
  clade__elt_insn insn[CLADE__ELT_INSNS];
} clade__elt;

/* Substitutes `inner` for input `at` of `outer`. map[i] gives the origin of input i of the result: an input of outer
 * if below 8, else 8 + an input of inner. Equal inputs are not merged. False if the program would be too long or
 * have too many inputs. */
bool clade__elt_compose(const clade__elt *outer, int at, const clade__elt *inner, clade__elt *out,
                        uint8_t map[CLADE__ELT_INPUTS]);

#endif
