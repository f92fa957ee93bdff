/* Generates OpenCL C for elementwise programs. Each instruction becomes a constant, computed by its row's expression
 * with the operands' names substituted. */
#include "op/op.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* OpenCL type of a value, or of a vector of sixteen if `wide`. */
static const char *value_type(clade_dtype t, bool wide) {
  if (!wide) return clade__compute_type(t);
  return clade__is_float(t) ? "float16" : "int16";
}

typedef struct names { /* substitutions for the names in an expression */
  char operand[3][8];
  char real[CLADE__ELT_PARAMS][48], integer[CLADE__ELT_PARAMS][48];
  const char *type; /* operand type, for T */
} names;

static void real_literal(char text[48], float value) {
  if (isinf(value))
    snprintf(text, 48, value < 0 ? "(-INFINITY)" : "INFINITY");
  else
    snprintf(text, 48, value < 0 ? "(%af)" : "%af", (double)value);
}

/* A literal of the smallest value would overflow before the minus. */
static void integer_text(char text[48], int64_t v, bool wide) {
  const char *suffix = wide ? "L" : "";
  if (v == (wide ? INT64_MIN : INT32_MIN))
    snprintf(text, 48, "(%" PRId64 "%s - 1)", v + 1, suffix);
  else
    snprintf(text, 48, "%" PRId64 "%s", v, suffix);
}

/* The bound as an integer literal, clamped to the type's range. */
static void integer_literal(char text[48], double value, bool wide) {
  int64_t low = wide ? INT64_MIN : INT32_MIN, high = wide ? INT64_MAX : INT32_MAX;
  int64_t v = value <= (double)low ? low : value >= (double)high ? high : (int64_t)value;
  char digits[48];
  integer_text(digits, v, wide);
  snprintf(text, 48, v == low ? "%s" : "(%s)", digits);
}

static const char *stands_for(const names *n, const char *token, size_t length) {
  if (length != 1) return NULL;
  switch (*token) {
  case 'a': return n->operand[0];
  case 'b': return n->operand[1];
  case 'c': return n->operand[2];
  case 'p': return n->real[0];
  case 'q': return n->real[1];
  case 'P': return n->integer[0];
  case 'Q': return n->integer[1];
  case 'T': return n->type;
  case 'U': return n->type[0] == 'l' ? "ulong" : "uint";
  default: return NULL;
  }
}

/* Functions with a float16 version in prelude_math.cl; some compilers would call the built-in one once per lane. */
static bool ours(const char *token, size_t length) {
  static const char *const names[] = {"exp",  "expm1",     "log", "log1p", "tanh", "erf", "erfc",
                                      "gelu", "gelu_grad", "sin", "cos",   "tan",  "rint"};
  for (size_t i = 0; i < CLADE_COUNT(names); i++)
    if (strlen(names[i]) == length && strncmp(names[i], token, length) == 0) return true;
  return false;
}

static void substitute(const char *expression, const names *n, bool wide, clade__text *out) {
  for (const char *at = expression; *at;) {
    const char *end = at + 1;
    const char *name = NULL;
    if (isalpha((unsigned char)*at) || *at == '_') {
      while (isalnum((unsigned char)*end) || *end == '_') end++;
      name = stands_for(n, at, (size_t)(end - at));
      if (wide && ours(at, (size_t)(end - at))) clade__text_add(out, "clade_");
    } else if (isdigit((unsigned char)*at)) { /* a number with its suffix */
      while (isalnum((unsigned char)*end) || *end == '.') end++;
    }
    if (name)
      clade__text_add(out, "%s", name);
    else
      clade__text_add_bytes(out, at, (size_t)(end - at));
    at = end;
  }
}

static clade_dtype value_dtype(const clade__elt *p, int value) {
  return (clade_dtype)(value < p->n_in ? p->in_dtype[value] : p->insn[value - p->n_in].dtype);
}

/* True if a type has fewer bits in memory than in computation. */
static bool narrow(clade_dtype t) {
  const clade__dtype *row = clade__dtype_row(t);
  const unsigned computed = strcmp(row->compute, "long") == 0 ? 64 : 32;
  return row->kind != CLADE__TRUTH && row->bits < computed;
}

/* Converts a float to an integer: truncates, saturates, and turns NaN into 0. */
static void saturate(const char *a, clade_dtype to, clade__text *out) {
  const int64_t low = clade__dtype_low(to), high = clade__dtype_high(to);
  const bool wide = strcmp(clade__compute_type(to), "long") == 0;
  char least[48], most[48];
  integer_text(least, low, wide);
  snprintf(most, sizeof most, "%" PRId64 "%s", high, wide ? "L" : "");
  clade__text_add(out, "%s != %s ? 0 : %s <= %.1ff ? %s : %s >= %.1ff ? %s : (%s)%s", a, a, a, (double)(float)low,
                  least, a, (double)(float)high, most, clade__compute_type(to), a);
}

/* Casts: float to integer saturates, integer to integer wraps around, and narrow floats are rounded. */
static void cast(const char *a, clade_dtype from, clade_dtype to, clade__text *out) {
  if (to == CLADE_BOOL)
    clade__text_add(out, "%s != 0", a);
  else if (from == CLADE_BOOL)
    clade__text_add(out, "(%s)(%s != 0)", clade__compute_type(to), a);
  else if (clade__is_float(to) && narrow(to) && to != from)
    clade__text_add(out, "ROUND(%s, (float)%s)", clade_dtype_name(to), a);
  else if (clade__is_float(from) && !clade__is_float(to))
    saturate(a, to, out);
  else if (narrow(to) && !clade__is_float(to))
    clade__text_add(out, "ROUND(%s, %s)", clade_dtype_name(to), a);
  else
    clade__text_add(out, "(%s)(%s)", clade__compute_type(to), a);
}

/* Casts between floats, from integers to floats, and from floats to bytes, for vectors of sixteen. */
static void wide_cast(const char *a, clade_dtype from, clade_dtype to, clade__text *out) {
  const char *number = clade__is_float(from) ? "" : "convert_float16";
  if (!clade__is_float(to))
    clade__text_add(out, "clade_whole16(%s, %d.0f, %d.0f)", a, (int)clade__dtype_low(to), (int)clade__dtype_high(to));
  else if (to != from && narrow(to))
    clade__text_add(out, "ROUND16(%s, %s(%s))", clade_dtype_name(to), number, a);
  else if (*number)
    clade__text_add(out, "%s(%s)", number, a);
  else
    clade__text_add(out, "(%s)", a);
}

/* The expression of one instruction. */
static clade_status expression(const clade__elt *p, const clade__elt_insn *insn, bool wide, clade__text *out) {
  const clade__elt_row *row = clade__elt_by_number(insn->fn);
  names n = {0};
  clade_dtype of = value_dtype(p, insn->arg[row->kind == CLADE__ELT_SELECT]);
  bool real = clade__is_float(of);
  n.type = clade__compute_type(of);
  for (int i = 0; i < row->arity; i++) {
    bool input = insn->arg[i] < p->n_in;
    snprintf(n.operand[i], sizeof n.operand[i], input ? "i%d" : "v%d", insn->arg[i] - (input ? 0 : p->n_in));
  }
  for (int i = 0; i < CLADE__ELT_PARAMS; i++) {
    real_literal(n.real[i], insn->param[i]);
    integer_literal(n.integer[i], i ? floor((double)insn->param[i]) : ceil((double)insn->param[i]), of == CLADE_I64);
  }
  if (row->kind == CLADE__ELT_CAST && !insn->wrt) {
    (wide ? wide_cast : cast)(n.operand[0], of, (clade_dtype)insn->dtype, out);
    return CLADE_OK;
  }
  const char *text = insn->wrt ? row->derivative[insn->wrt - 1] : real ? row->expression : row->integer;
  if (!text) return CLADE_FAIL(UNSUPPORTED, "%s has no expression for %s", row->name, clade_dtype_name(of));
  bool wraps =
      (row->kind == CLADE__ELT_NUMBER || row->kind == CLADE__ELT_INTEGER) && clade__is_integer(of) && narrow(of);
  if (wraps)
    clade__text_add(out, "ROUND(%s, ", clade_dtype_name(of));
  else
    clade__text_add(out, "(");
  substitute(text, &n, wide, out);
  clade__text_add(out, ")");
  return CLADE_OK;
}

static clade_status source(const clade__elt *p, bool wide, clade__text *out) {
  CLADE_TRY(clade__elt_check(p));
  for (int k = 0; k < p->n_insn; k++) {
    clade__text_add(out, "const %s v%d = ", value_type((clade_dtype)p->insn[k].dtype, wide), k);
    CLADE_TRY(expression(p, &p->insn[k], wide, out));
    clade__text_add(out, "; ");
  }
  clade__text_add(out, "const %s r = ", value_type(clade__elt_dtype(p), wide));
  clade__text_add(out, p->n_insn ? "v%d;" : "i%d;", p->n_insn ? p->n_insn - 1 : 0);
  return CLADE_OK;
}

clade_status clade__elt_source(const clade__elt *p, clade__text *out) { return source(p, false, out); }
clade_status clade__elt_source16(const clade__elt *p, clade__text *out) { return source(p, true, out); }

bool clade__elt_wide(const clade__elt *p) {
  if (clade__elt_has_blocks(p)) return false;
  for (int i = 0; i < p->n_in; i++)
    if (!clade__is_float(p->in_dtype[i])) return false;
  for (int k = 0; k < p->n_insn; k++) {
    const clade__elt_insn *insn = &p->insn[k];
    const clade__elt_row *row = clade__elt_by_number(insn->fn);
    bool tests = insn->dtype == CLADE_BOOL && (row->kind == CLADE__ELT_COMPARE || row->kind == CLADE__ELT_TEST);
    if (!clade__is_float(insn->dtype) && !tests) return false;
    if (row->kind == CLADE__ELT_CAST && !insn->wrt && !clade__is_float(value_dtype(p, insn->arg[0]))) return false;
  }
  return clade__is_float(clade__elt_dtype(p));
}

static bool is_byte(clade_dtype t) { return t == CLADE_I8 || t == CLADE_U8; }

bool clade__elt_wide_whole(const clade__elt *p) {
  if (clade__elt_has_blocks(p)) return false;
  for (int i = 0; i < p->n_in; i++) {
    const clade_dtype t = (clade_dtype)p->in_dtype[i];
    if (!clade__is_float(t) && !is_byte(t) && t != CLADE_I32) return false;
  }
  for (int k = 0; k < p->n_insn; k++) {
    const clade__elt_insn *insn = &p->insn[k];
    const clade__elt_row *row = clade__elt_by_number(insn->fn);
    const clade_dtype of = value_dtype(p, insn->arg[row->kind == CLADE__ELT_SELECT]), to = (clade_dtype)insn->dtype;
    const bool casts = row->kind == CLADE__ELT_CAST && !insn->wrt;
    if (casts ? !(clade__is_float(to) || (clade__is_float(of) && is_byte(to))) : !clade__is_float(to)) return false;
    for (int i = 0; !casts && i < row->arity; i++)
      if (!clade__is_float(value_dtype(p, insn->arg[i]))) return false;
  }
  return clade__is_float(clade__elt_dtype(p)) || is_byte(clade__elt_dtype(p)) || !p->n_insn;
}
