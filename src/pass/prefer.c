/* The user's choice of implementations: "gemm=ref,softmax=ref". All names are validated against the built graph,
 * since a misspelled one would otherwise be ignored silently. */
#include "pass/pass.h"

const char *clade__preferred(const char *prefer, const char *op, size_t *length) {
  size_t n = strlen(op);
  for (const char *at = prefer; at && *at; at += *at == ',') {
    size_t end = strcspn(at, ",");
    if (end > n && strncmp(at, op, n) == 0 && at[n] == '=') {
      *length = end - n - 1;
      return at + n + 1;
    }
    at += end;
  }
  return NULL;
}

bool clade__word_is(const char *name, const char *text, size_t n) {
  return strlen(name) == n && strncmp(name, text, n) == 0;
}

bool clade__impl_is(const clade_impl *impl, const char *text, size_t n, int *alternative) {
  const size_t name = strlen(impl->name);
  *alternative = -1;
  if (n == name + 2 && text[name] == '/' && text[name + 1] >= '0') *alternative = text[name + 1] - '0';
  if (*alternative >= clade__alternatives(impl)) return false;
  return clade__word_is(impl->name, text, *alternative < 0 ? n : name);
}

const clade_op *clade__op_named(const clade_graph *g, const char *name, size_t n) {
  for (const clade_op *const *op = clade__ops; *op; op++)
    if (clade__word_is((*op)->name, name, n)) return *op;
  for (size_t i = 1; i < g->n_nodes; i++)
    if (clade__word_is(g->nodes[i].op->name, name, n)) return g->nodes[i].op;
  return NULL;
}

static clade_status no_impl(const clade_op *op, const char *want, size_t n) {
  clade__text names = {0};
  for (const clade_impl *const *impl = clade__impls(op); *impl; impl++)
    clade__text_add(&names, "%s%s", names.length ? ", " : "", (*impl)->name);
  clade_status status = CLADE_FAIL(NOT_FOUND, "prefer: the op %s has no implementation \"%.*s\"; it has: %s", op->name,
                                   (int)CLADE_MIN(n, 64u), want, names.length ? names.data : "none");
  clade__text_free(&names);
  return status;
}

/* `op` has `n` bytes of the `end` bytes "op=implementation". */
static clade_status check_word(const clade__pass_ctx *ctx, const char *at, size_t n, size_t end) {
  size_t length;
  int alternative;
  if (n == 0 || n + 1 >= end)
    return CLADE_FAIL(INVALID, "prefer: \"%.*s\": op=implementation is expected", (int)CLADE_MIN(end, 64u), at);
  const clade_op *op = clade__op_named(ctx->graph, at, n);
  if (!op) return CLADE_FAIL(NOT_FOUND, "prefer: there is no op \"%.*s\"", (int)CLADE_MIN(n, 64u), at);
  if (clade__preferred(ctx->prefer, op->name, &length) != at + n + 1)
    return CLADE_FAIL(DUPLICATE, "prefer: names the op \"%s\" twice", op->name);
  for (const clade_impl *const *impl = clade__impls(op); *impl; impl++)
    if (clade__impl_is(*impl, at + n + 1, end - n - 1, &alternative)) return CLADE_OK;
  return no_impl(op, at + n + 1, end - n - 1);
}

clade_status clade__pass_prefer(clade__pass_ctx *ctx) {
  for (const char *at = ctx->prefer; at && *at; at += *at == ',') {
    size_t end = strcspn(at, ",");
    CLADE_TRY(check_word(ctx, at, CLADE_MIN(strcspn(at, "="), end), end));
    at += end;
  }
  return CLADE_OK;
}
