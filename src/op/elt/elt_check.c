/* Type checks of elementwise programs: which element types a function takes, and its result type. */
#include "op/op.h"

static clade_status refuse(const clade__elt_row *row, int operand, clade_dtype got, const char *expected) {
  return CLADE_FAIL(DTYPE, "%s: operand %d is %s; expected %s", row->name, operand, clade_dtype_name(got), expected);
}

static clade_status same(const clade__elt_row *row, const clade_dtype *in, int from) {
  for (int i = from + 1; i < row->arity; i++)
    if (in[i] != in[from])
      return CLADE_FAIL(DTYPE, "%s: operand %d is %s, operand %d is %s; expected equal types: cast one of them",
                        row->name, from, clade_dtype_name(in[from]), i, clade_dtype_name(in[i]));
  return CLADE_OK;
}

clade_status clade__elt_result(const clade__elt_row *row, const clade_dtype *in, clade_dtype want, clade_dtype *out) {
  for (int i = 0; i < row->arity; i++)
    if (!clade__is_float(in[i]) && !clade__is_integer(in[i]) && in[i] != CLADE_BOOL)
      return CLADE_FAIL(DTYPE, "%s: operand %d: %d is no element type that it takes", row->name, i, (int)in[i]);
  for (int i = 0; i < row->arity && row->kind != CLADE__ELT_CAST; i++)
    if (clade__has_blocks(in[i])) return refuse(row, i, in[i], "elements that share no block: cast them");
  *out = in[0];
  switch (row->kind) {
  case CLADE__ELT_FLOAT:
    if (!clade__is_float(in[0])) return refuse(row, 0, in[0], "a float");
    return same(row, in, 0);
  case CLADE__ELT_NUMBER:
    if (!clade__is_float(in[0]) && !clade__is_integer(in[0])) return refuse(row, 0, in[0], "a number");
    return same(row, in, 0);
  case CLADE__ELT_INTEGER:
    if (!clade__is_integer(in[0])) return refuse(row, 0, in[0], "an integer");
    return same(row, in, 0);
  case CLADE__ELT_COMPARE: *out = CLADE_BOOL; return same(row, in, 0);
  case CLADE__ELT_TEST: *out = CLADE_BOOL; return clade__is_float(in[0]) ? CLADE_OK : refuse(row, 0, in[0], "a float");
  case CLADE__ELT_LOGIC:
    for (int i = 0; i < row->arity; i++)
      if (in[i] != CLADE_BOOL) return refuse(row, i, in[i], "bool");
    return CLADE_OK;
  case CLADE__ELT_SELECT:
    if (in[0] != CLADE_BOOL) return refuse(row, 0, in[0], "bool");
    *out = in[1];
    return same(row, in, 1);
  case CLADE__ELT_CAST:
    if (!clade__is_float(want) && !clade__is_integer(want) && want != CLADE_BOOL)
      return CLADE_FAIL(DTYPE, "%s: %d is no element type", row->name, (int)want);
    *out = want;
    return CLADE_OK;
  }
  return CLADE_FAIL(INTERNAL, "%s: a row of no known kind", row->name);
}

static clade_dtype operand_dtype(const clade__elt *p, int arg) {
  return (clade_dtype)(arg < p->n_in ? p->in_dtype[arg] : p->insn[arg - p->n_in].dtype);
}

static clade_status check_insn(const clade__elt *p, int k) {
  const clade__elt_insn *insn = &p->insn[k];
  const clade__elt_row *row = clade__elt_by_number(insn->fn);
  clade_dtype in[3] = {CLADE_DTYPE_NONE}, result;
  if (!row) return CLADE_FAIL(NOT_FOUND, "elementwise function number %u does not exist", insn->fn);
  for (int i = 0; i < row->arity; i++) {
    if (insn->arg[i] >= p->n_in + k)
      return CLADE_FAIL(INVALID, "%s: operand %d of instruction %d is value %d, but only %d come before it", row->name,
                        i, k, insn->arg[i], p->n_in + k);
    in[i] = operand_dtype(p, insn->arg[i]);
  }
  CLADE_TRY(clade__elt_result(row, in, (clade_dtype)insn->dtype, &result));
  if (insn->wrt > row->arity || (insn->wrt && (!row->derivative[insn->wrt - 1] || !clade__is_float(result))))
    return CLADE_FAIL(UNSUPPORTED, "%s of %s has no derivative by operand %d", row->name, clade_dtype_name(result),
                      insn->wrt - 1);
  if ((clade_dtype)insn->dtype != result)
    return CLADE_FAIL(DTYPE, "%s: the result is %s, not %s", row->name, clade_dtype_name(result),
                      clade_dtype_name((clade_dtype)insn->dtype));
  return CLADE_OK;
}

clade_status clade__elt_check(const clade__elt *p) {
  if (p->n_in < 1 || p->n_in > CLADE__ELT_INPUTS || p->n_insn > CLADE__ELT_INSNS)
    return CLADE_FAIL(INVALID, "an elementwise program of %d inputs and %d instructions; expected 1 to %d and 0 to %d",
                      p->n_in, p->n_insn, CLADE__ELT_INPUTS, CLADE__ELT_INSNS);
  for (int i = 0; i < p->n_in; i++)
    if (strcmp(clade_dtype_name((clade_dtype)p->in_dtype[i]), "?") == 0)
      return CLADE_FAIL(DTYPE, "an elementwise program: input %d: %d is no element type", i, p->in_dtype[i]);
  for (int k = 0; k < p->n_insn; k++) CLADE_TRY(check_insn(p, k));
  return CLADE_OK;
}

bool clade__elt_has_blocks(const clade__elt *p) {
  bool any = false;
  for (int i = 0; i < p->n_in; i++) any |= clade__has_blocks((clade_dtype)p->in_dtype[i]);
  for (int k = 0; k < p->n_insn; k++) any |= clade__has_blocks((clade_dtype)p->insn[k].dtype);
  return any;
}

clade_dtype clade__elt_dtype(const clade__elt *p) {
  return (clade_dtype)(p->n_insn ? p->insn[p->n_insn - 1].dtype : p->in_dtype[0]);
}
