/* Epilogues: which ops have one, which operands they may take, and their text for the kernel's store. */
#include "op/elt/epilogue.h"

#include "op/norm/batch_norm.h"
#include "op/conv/conv.h"

#include <stdio.h>

static const clade__host hosts[] = {
    {&clade__op_gemm, offsetof(clade__gemm_attrs, epilogue), 2, 1},
    {&clade__op_conv2d, offsetof(clade__conv_attrs, epilogue), 2, 2},
    {&clade__op_conv2d_data, offsetof(clade__conv_attrs, epilogue), 2, 2},
    {&clade__op_batch_norm, offsetof(clade__batch_norm_attrs, epilogue), 5, 0},
};

const clade__host *clade__host_of(const clade_op *op) {
  for (size_t i = 0; i < CLADE_COUNT(hosts); i++)
    if (hosts[i].op == op) return &hosts[i];
  return NULL;
}

static const clade__elt *program_of(const clade_node *n, const clade__host *host) {
  return (const clade__elt *)(const void *)((const char *)n->attrs + host->epilogue);
}

const char *clade__host_refuses(const clade__host *host, const clade_shape *operand, const clade_shape *result) {
  int whole = 0, ones = 0;
  if (!host->joined) return clade_shape_equal(operand, result) ? NULL : "is not as large as the result";
  if (operand->rank > result->rank) return "has more dimensions than the result";
  for (int i = 1; i <= result->rank; i++) {
    clade_dim want = result->dim[result->rank - i], have = i <= operand->rank ? operand->dim[operand->rank - i] : 1;
    if (have != 1 && have != want) return "cannot be broadcast to the result";
    if (i > host->joined) continue;
    whole += have == want;
    ones += have == 1;
  }
  return whole == host->joined || ones == host->joined ? NULL
                                                       : "is broadcast along some only of the last axes of the result";
}

bool clade__host_computes(const clade__host *host, const clade__elt *epilogue) {
  return host->joined || !epilogue->n_insn ||
         (clade__elt_wide(epilogue) && clade__elt_dtype(epilogue) == (clade_dtype)epilogue->in_dtype[0]);
}

clade_status clade__epilogue_infer(const clade_node *n, clade_type *out) {
  const clade__host *host = clade__host_of(n->op);
  const clade__elt *p = program_of(n, host);
  const char *op = n->op->name;
  int inputs = p->n_in ? p->n_in - 1 : 0;
  char s[200], t[200];
  if (inputs != n->n_in - host->own)
    return CLADE_FAIL(INVALID, "%s: the epilogue takes %d operands beside the result, but the node has %d", op, inputs,
                      n->n_in - host->own);
  for (int i = host->own; i < n->n_in; i++) {
    clade_dtype have = n->in[i].dtype, want = (clade_dtype)p->in_dtype[i - host->own + 1];
    if (have != want)
      return CLADE_FAIL(DTYPE, "%s: operand %d is %s; the epilogue expects %s", op, i, clade_dtype_name(have),
                        clade_dtype_name(want));
    const char *reason = clade__host_refuses(host, &n->in[i].shape, &out->shape);
    if (reason)
      return CLADE_FAIL(BAD_SHAPE, "%s: operand %d is %s and %s %s", op, i,
                        clade_shape_text(&n->in[i].shape, s, sizeof s), reason,
                        clade_shape_text(&out->shape, t, sizeof t));
  }
  if (!p->n_insn) return CLADE_OK;
  if ((clade_dtype)p->in_dtype[0] != out->dtype)
    return CLADE_FAIL(DTYPE, "%s: the epilogue expects a result of %s, but it is %s", op,
                      clade_dtype_name((clade_dtype)p->in_dtype[0]), clade_dtype_name(out->dtype));
  CLADE_TRY(clade__elt_check(p));
  if (!clade__host_computes(host, p))
    return CLADE_FAIL(INVALID, "%s: the epilogue does not compute whole vectors of %s", op,
                      clade_dtype_name(out->dtype));
  out->dtype = clade__elt_dtype(p);
  return CLADE_OK;
}

clade_status clade__epilogue_define(clade_kernel_step *s, const clade_node *n) {
  const clade__host *host = clade__host_of(n->op);
  const clade__elt *p = program_of(n, host);
  clade__text args = {0}, pass = {0}, use = {0}, body = {0};
  clade_status status = CLADE_OK;
  for (int i = host->own; i < n->n_in; i++) {
    const char *t = clade_dtype_name(n->in[i].dtype);
    clade__text_add(&args, ", ARG(const STORAGE(%s), e%d), const index8_t e%d_s", t, i, i);
    clade__text_add(&pass, ", PASS(e%d), e%d_s", i, i);
    clade__text_add(&use, "USE(const STORAGE(%s), e%d); e%d += EPILOGUE_AT(e%d_s); ", t, i, i, i);
    clade__text_add(&body, "const COMPUTE(%s) i%d = LOAD(%s, e%d, EPILOGUE_ELEMENT(e%d_s)); ", t, i - host->own + 1, t,
                    i, i);
  }
  if (p->n_insn)
    CLADE_GOTO(clade__elt_source(p, &body));
  else
    clade__text_add(&body, "const COMPUTE(T) r = i0;");
  static const char *const names[] = {"EPILOGUE_ARGS", "EPILOGUE_PASS", "EPILOGUE_USE", "EPILOGUE"};
  clade__text *from[] = {&args, &pass, &use, &body};
  for (int i = 0; i < 4; i++) {
    char *text = NULL;
    if (status == CLADE_OK) status = clade__text_take(from[i], &text);
    for (char *c = text; c && *c; c++)
      if (*c == '\n') *c = ' ';
    if (status == CLADE_OK) clade_emit_define_text(s, names[i], text);
    clade__free(text);
  }
fail:
  clade__text_free(&args);
  clade__text_free(&pass);
  clade__text_free(&use);
  clade__text_free(&body);
  return status;
}

static const char *sixteen_of(clade_dtype t) { return clade__is_float(t) ? "float16" : "int16"; }

static clade_status define16(clade_kernel_step *s, const clade_node *n, bool wide) {
  const clade__host *host = clade__host_of(n->op);
  const clade__elt *p = program_of(n, host);
  clade__text body = {0};
  char *text = NULL;
  clade_emit_define(s, "WIDE", wide);
  if (!wide) return CLADE_OK;
  clade_status status = CLADE_OK;
  for (int i = host->own; i < n->n_in; i++)
    clade__text_add(&body, "const %s i%d = EPILOGUE_LOAD16(%s, e%d, e%d_s); ", sixteen_of(n->in[i].dtype),
                    i - host->own + 1, clade_dtype_name(n->in[i].dtype), i, i);
  if (p->n_insn)
    CLADE_GOTO(clade__elt_source16(p, &body));
  else
    clade__text_add(&body, "const %s r = i0;", sixteen_of(n->out[0].dtype));
  CLADE_GOTO(clade__text_take(&body, &text));
  clade_emit_define_text(s, "EPILOGUE16", text);
fail:
  clade__free(text);
  clade__text_free(&body);
  return status;
}

clade_status clade__epilogue_define16(clade_kernel_step *s, const clade_node *n) {
  const clade__elt *p = program_of(n, clade__host_of(n->op));
  return define16(s, n, !p->n_insn || clade__elt_wide(p));
}

clade_status clade__epilogue_define16_whole(clade_kernel_step *s, const clade_node *n) {
  const clade__elt *p = program_of(n, clade__host_of(n->op));
  return define16(s, n, !p->n_insn || clade__elt_wide(p) || clade__elt_wide_whole(p));
}

clade_status clade__epilogue_define_soon(clade_kernel_step *s, const clade_node *n) {
  clade__text body = {0};
  char *text = NULL;
  for (int i = clade__host_of(n->op)->own; i < n->n_in; i++) {
    const clade_shape *shape = &n->in[i].shape;
    if (shape->rank < 2 || (shape->dim[shape->rank - 1] == 1 && shape->dim[shape->rank - 2] == 1)) continue;
    clade__text_add(&body, "if (e%d_s.s7) SOON(e%d + EPILOGUE_ELEMENT(e%d_s)); ", i, i, i);
  }
  clade_status status = clade__text_take(&body, &text);
  if (status == CLADE_OK) clade_emit_define_text(s, "EPILOGUE_SOON", text);
  clade__free(text);
  clade__text_free(&body);
  return status;
}

void clade__epilogue_args(clade_kernel_step *s, const clade_node *n, int64_t (*strides)[CLADE_MAX_RANK]) {
  int own = clade__host_of(n->op)->own;
  for (int i = own; i < n->n_in; i++) {
    clade_emit_in(s, i);
    clade_emit_index8(s, 8, strides[i - own]);
  }
}
