/* Turns a node into the text that is the key of tuning records. Layouts are left out, since the implementation
 * determines them. */
#include <inttypes.h>
#include <stdio.h>

#include "op/op.h"

/* Sizes up to 16 are kept; larger ones are rounded up to three significant bits. */
int64_t clade__bucket(int64_t size) {
  int shift = 0;
  if (size <= 16 || size > INT64_MAX / 2) return size;
  while (size >> shift > 7) shift++;
  int64_t step = INT64_C(1) << shift;
  return (size + step - 1) / step * step;
}

static void add_shape(clade__text *t, const clade_shape *shape, bool exact) {
  clade__text_add(t, "[");
  for (int i = 0; i < shape->rank && i < CLADE_MAX_RANK; i++)
    clade__text_add(t, "%s%" PRId64, i ? "," : "", exact ? shape->dim[i] : clade__bucket(shape->dim[i]));
  clade__text_add(t, "]");
}

static void add_type(clade__text *t, const clade_type *type, bool exact) {
  clade__text_add(t, "%s", clade_dtype_name(type->dtype));
  add_shape(t, &type->shape, exact);
}

/* Float and byte attributes (factors, elementwise programs) change the result, and hardly the speed. */
static bool counts(const clade_attr *a) { return a->kind != CLADE_ATTR_F32 && a->kind != CLADE_ATTR_BYTES; }

static bool is_zero(const char *at, size_t bytes) {
  while (bytes && !at[bytes - 1]) bytes--;
  return bytes == 0;
}

static void add_element(clade__text *t, clade_attr_kind kind, const char *at) {
  clade_shape shape;
  clade_dtype dtype;
  int64_t wide = 0;
  int32_t narrow = 0;
  bool flag = false;
  switch (kind) {
  case CLADE_ATTR_BOOL: memcpy(&flag, at, sizeof flag), clade__text_add(t, "%d", flag); break;
  case CLADE_ATTR_I32: memcpy(&narrow, at, sizeof narrow), clade__text_add(t, "%" PRId32, narrow); break;
  case CLADE_ATTR_I64: memcpy(&wide, at, sizeof wide), clade__text_add(t, "%" PRId64, wide); break;
  case CLADE_ATTR_DTYPE: memcpy(&dtype, at, sizeof dtype), clade__text_add(t, "%s", clade_dtype_name(dtype)); break;
  case CLADE_ATTR_SHAPE: memcpy(&shape, at, sizeof shape), add_shape(t, &shape, false); break;
  case CLADE_ATTR_F32:
  case CLADE_ATTR_BYTES: break;
  }
}

static void add_attrs(const clade_node *n, clade__text *t) {
  for (const clade_attr *a = n->op->attrs; a && a->name; a++) {
    const char *at = (const char *)n->attrs + a->offset;
    size_t size = clade__attr_size(a->kind);
    uint32_t count = CLADE_MAX(a->count, 1u);
    if (!counts(a) || is_zero(at, count * size)) continue;
    clade__text_add(t, "%s=", a->name);
    for (uint32_t i = 0; i < count; i++) {
      if (i) clade__text_add(t, ",");
      add_element(t, a->kind, at + i * size);
    }
    clade__text_add(t, " ");
  }
}

void clade__problem_text(const clade_node *n, bool exact, clade__text *t) {
  char digest[33];
  int count = !exact && n->op->problem_in ? CLADE_MIN(n->op->problem_in, n->n_in) : n->n_in;
  if (!exact)
    add_attrs(n, t);
  else if (n->op->attr_bytes)
    clade__text_add(t, "#%s ", clade__hash_text(clade__attrs_hash((clade__hash){0}, n->op, n->attrs), digest));
  for (int i = 0; i < count; i++) {
    add_type(t, &n->in[i], exact);
    clade__text_add(t, " ");
  }
  clade__text_add(t, "->");
  for (int i = 0; i < n->n_out; i++) {
    clade__text_add(t, " ");
    if (exact)
      add_type(t, &n->out[i], true);
    else
      clade__text_add(t, "%s", clade_dtype_name(n->out[i].dtype));
  }
}

const char *clade__kernel_source_of(const clade_op *op, const clade_impl *impl) {
  return impl->bundled ? "" : CLADE__FIELD(op, source, NULL);
}

const char *clade__kernel_file(const clade_op *op, const clade_impl *impl) {
  const char *file = impl->file ? impl->file : CLADE__FIELD(op, file, NULL);
  return impl->bundled ? CLADE__BUNDLED_FILE : file ? file : op->name;
}

clade_status clade__impl_hash(const clade_op *op, const clade_impl *impl, const clade_device_info *device,
                              clade__hash *out) {
  const clade__request request = {.file = clade__kernel_file(op, impl),
                                  .source = clade__kernel_source_of(op, impl),
                                  .kernel = "impl",
                                  .options = ""};
  CLADE_TRY(clade__request_hash(&request, out));
  *out = clade__hash_more_text(*out, impl->name);
  if (impl->bundled && device->bundles) *out = clade__hash_more_text(*out, device->bundles);
  for (int i = 0; impl->space && impl->space->params[i]; i++)
    *out = clade__hash_more_text(*out, impl->space->params[i]);
  return CLADE_OK;
}

bool clade__tunable(const clade_op *op, const clade_device_info *device) {
  int made = 0;
  bool varies = false;
  for (const clade_impl *const *impl = clade__impls(op); *impl; impl++) {
    /* a bundle leaves no choice; what is asked then is whether another device has one */
    const bool fits = device && !device->kernels ? clade__impl_made_for(*impl, device) : !(*impl)->bundled;
    made += fits;
    varies = varies || (fits && (*impl)->space);
  }
  return made > 1 || varies;
}
