/* Composition of elementwise programs. */
#include "ir/elt.h"

bool clade__elt_compose(const clade__elt *outer, int at, const clade__elt *inner, clade__elt *out,
                        uint8_t map[CLADE__ELT_INPUTS]) {
  int n_in = inner->n_in + outer->n_in - 1, n_insn = inner->n_insn + outer->n_insn;
  if (at < 0 || at >= outer->n_in || !inner->n_in || n_in > CLADE__ELT_INPUTS || n_insn > CLADE__ELT_INSNS)
    return false;
  if (!outer->n_insn && at != 0) return false; /* the result is input 0, so there is nothing to compose */
  clade__elt r = {.n_in = (uint8_t)n_in, .n_insn = (uint8_t)n_insn};
  uint8_t place[UINT8_MAX + 1] = {0}, from[CLADE__ELT_INPUTS] = {0};
  int n = 0;
  /* The inner program's inputs come first, so that input 0 of an epilogue stays the op's result. */
  for (int i = 0; i < inner->n_in; i++, n++) {
    r.in_dtype[n] = inner->in_dtype[i];
    from[n] = (uint8_t)(CLADE__ELT_INPUTS + i);
  }
  for (int i = 0; i < outer->n_in; i++) {
    if (i == at) continue;
    place[i] = (uint8_t)n;
    r.in_dtype[n] = outer->in_dtype[i];
    from[n++] = (uint8_t)i;
  }
  place[at] = (uint8_t)(inner->n_insn ? n_in + inner->n_insn - 1 : 0);
  for (int i = 0; i < outer->n_insn; i++) place[outer->n_in + i] = (uint8_t)(n_in + inner->n_insn + i);
  for (int i = 0; i < inner->n_insn; i++) {
    clade__elt_insn *insn = &r.insn[i];
    *insn = inner->insn[i];
    for (int k = 0; k < 3; k++)
      if (insn->arg[k] >= inner->n_in) insn->arg[k] = (uint8_t)(insn->arg[k] - inner->n_in + n_in);
  }
  for (int i = 0; i < outer->n_insn; i++) {
    clade__elt_insn *insn = &r.insn[inner->n_insn + i];
    *insn = outer->insn[i];
    for (int k = 0; k < 3; k++) insn->arg[k] = place[insn->arg[k]];
  }
  *out = r;
  memcpy(map, from, sizeof from);
  return true;
}
