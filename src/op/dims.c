/* Axes, strides and cost estimates that several ops share. */
#include "op/dims.h"

#include "base/profile.h"

clade_status clade__axis(const char *what, int axis, int rank, int *out) {
  if (axis < -rank || axis >= rank)
    return CLADE_FAIL(INVALID, "%s: axis %d is out of range for a value of rank %d", what, axis, rank);
  *out = axis < 0 ? axis + rank : axis;
  return CLADE_OK;
}

clade_status clade__want_dense(const clade_node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (n->in[i].layout.block)
      return CLADE_FAIL(INVALID, "%s: operand %d is in a blocked layout (axis %d, block %d): unpack it first",
                        n->op->name, i, n->in[i].layout.axis, n->in[i].layout.block);
  return CLADE_OK;
}

clade_status clade__want_float(const clade_node *n, int operand, const char *name) {
  clade_dtype t = n->in[operand].dtype;
  return clade__want_float_type(n->op->name, name, t);
}

clade_status clade__want_float_type(const char *op, const char *name, clade_dtype have) {
  char floats[CLADE__DTYPE_NAMES];
  if (clade__is_computed_float(have)) return CLADE_OK;
  return CLADE_FAIL(DTYPE, "%s: %s is %s; expected %s", op, name, clade_dtype_name(have),
                    clade__dtype_names(clade__is_computed_float, floats));
}

clade_status clade__want_computed(const char *op, const char *name, clade_dtype have) {
  if (clade__is_computed(have)) return CLADE_OK;
  return CLADE_FAIL(DTYPE, "%s: %s is %s, a type for storage; cast it first", op, name, clade_dtype_name(have));
}

clade_status clade__want_type(const char *op, const char *name, clade_dtype have, clade_dtype want) {
  if (have == want) return CLADE_OK;
  return CLADE_FAIL(DTYPE, "%s: %s is %s; expected %s", op, name, clade_dtype_name(have), clade_dtype_name(want));
}

int64_t clade__product(const clade_shape *shape, int from, int to) {
  int64_t product = 1;
  for (int i = from; i < to; i++) product *= shape->dim[i];
  return product;
}

void clade__strides(const clade_shape *shape, int64_t stride[CLADE_MAX_RANK]) {
  int64_t s = 1;
  for (int i = shape->rank - 1; i >= 0; i--) {
    stride[i] = s;
    s *= shape->dim[i];
  }
}

void clade__broadcast_strides(const clade_shape *in, const clade_shape *out, int64_t stride[CLADE_MAX_RANK]) {
  int64_t own[CLADE_MAX_RANK] = {0};
  int shift = out->rank - in->rank;
  clade__strides(in, own);
  for (int i = 0; i < out->rank; i++) stride[i] = i < shift || in->dim[i - shift] == 1 ? 0 : own[i - shift];
}

int clade__collapse(int rank, int64_t *dim, int n_sets, int64_t (*const *strides)[CLADE_MAX_RANK]) {
  int n = 0;
  for (int i = 0; i < rank; i++) {
    if (dim[i] == 1) continue;
    bool join = n > 0;
    for (int k = 0; k < n_sets && join; k++) join = (*strides[k])[n - 1] == (*strides[k])[i] * dim[i];
    int at = join ? n - 1 : n++;
    dim[at] = join ? dim[at] * dim[i] : dim[i];
    for (int k = 0; k < n_sets; k++) (*strides[k])[at] = (*strides[k])[i];
  }
  if (n > 0) return n;
  dim[0] = 1;
  for (int k = 0; k < n_sets; k++) (*strides[k])[0] = 0;
  return 1;
}

/* For CPUs the estimates of implementations are in cycles, so rates of the device class are used and measured ones are
 * ignored. Only GPUs are assumed to overlap computation with memory traffic. */
double clade__cost(const clade_device_info *device, double flops, double bytes, double efficiency) {
  clade__class_speed speed = clade__class_speed_of(device);
  if (device->device_class != CLADE_GPU) return speed.launch + flops / (speed.flops * efficiency) + bytes / speed.bytes;
  if (device->peak_gflops[CLADE_F32] > 0) speed.flops = 1e9 * device->peak_gflops[CLADE_F32];
  if (device->bandwidth_gbps > 0) speed.bytes = 1e9 * device->bandwidth_gbps;
  if (device->launch_us > 0) speed.launch = 1e-6 * device->launch_us;
  return speed.launch + CLADE_MAX(flops / (speed.flops * efficiency), bytes / speed.bytes);
}

double clade__node_bytes(const clade_node *n) {
  double sum = 0;
  for (int i = 0; i < n->n_in + n->n_out; i++) {
    const clade_type *t = i < n->n_in ? &n->in[i] : &n->out[i - n->n_in];
    sum += clade__bytes_of(t->dtype, clade__product(&t->shape, 0, t->shape.rank));
  }
  return sum;
}

double clade__bytes_of(clade_dtype dtype, int64_t elements) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row ? (double)elements / row->elements * row->bytes : 0;
}

size_t clade__element_bytes(clade_dtype dtype) {
  const clade__dtype *row = clade__dtype_row(dtype);
  return row && row->elements == 1 ? row->bytes : 0;
}

static clade_type stored(const clade_type *t) {
  clade_type dense = *t;
  clade_shape *s = &dense.shape;
  int64_t block = t->layout.block, interleave = CLADE_MAX(t->layout.interleave, 1);
  dense.layout = (clade_layout){0};
  if (block) s->dim[t->layout.axis] = clade__up(s->dim[t->layout.axis], block) / block;
  if (interleave > 1) s->dim[t->layout.axis - 1] = clade__up(s->dim[t->layout.axis - 1], interleave) / interleave;
  s->dim[s->rank++] = block ? block : 1;
  s->dim[s->rank++] = interleave;
  return dense;
}

void clade__node_stored(const clade_node *n, clade_type *in, clade_type *out, clade_node *as) {
  *as = *n;
  if (!n->out[0].layout.block) return;
  for (int i = 0; i < n->n_in; i++) in[i] = stored(&n->in[i]);
  for (int i = 0; i < n->n_out; i++) out[i] = stored(&n->out[i]);
  as->in = in;
  as->out = out;
}

uint64_t clade__elementwise(const clade_node *n, int out, int first) {
  const clade_type *y = &n->out[out];
  uint64_t mask = 0;
  for (int i = first; i < n->n_in; i++)
    if (clade_shape_equal(&n->in[i].shape, &y->shape) && clade__layout_equal(n->in[i].layout, y->layout) &&
        clade__element_bytes(n->in[i].dtype) == clade__element_bytes(y->dtype))
      mask |= UINT64_C(1) << i;
  return mask;
}

uint64_t clade__dx_in_place(const clade_node *n, int out) {
  (void)n;
  return out == 0 ? 3 : 0;
}

const char *clade__raw_name(clade_dtype dtype) {
  switch (clade__element_bytes(dtype)) {
  case 1: return "u8";
  case 2: return "f16";
  case 4: return "i32";
  default: return "i64";
  }
}

const char *clade__channels_last_refuse(const clade_shape *x) {
  if (x->rank < 3 || clade__product(x, 2, x->rank) == 1) return "requires more than one pixel per channel";
  if (x->dim[1] % CLADE__CHANNEL_COPY || x->dim[1] > UINT16_MAX) return "the channels are padded, or exceed one block";
  return NULL;
}

const char *clade__cut_short(const clade_device_info *device, double passes) {
  bool short_of = device->max_passes && passes > device->max_passes;
  return short_of ? "the device ends a work-item's loops too early" : NULL;
}

uint64_t clade__local_most(const clade_device_info *device) {
  return CLADE_MAX(device->local_bytes, device->local_static_bytes);
}

int clade__vector_width(const clade_device_info *device) {
  return device->vector_f32 >= 16 ? 16 : device->vector_f32 >= 8 ? 8 : 4;
}

int64_t clade__second_cache(const clade_device_info *device) {
  return device->l2_bytes ? (int64_t)device->l2_bytes : 512 << 10;
}

uint64_t clade__least_cache = 1u << 22;

uint64_t clade__last_cache(const clade_device_info *device) {
  uint64_t held = 2 * device->compute_units * device->l2_bytes, all = device->cache_bytes;
  return CLADE_MAX(device->far_cache ? CLADE_MIN(held, all) : all, clade__least_cache);
}

bool clade__streams(const clade_device_info *device, const clade_type *t) {
  double bytes = clade__bytes_of(t->dtype, clade__product(&t->shape, 0, t->shape.rank));
  return device->device_class == CLADE_CPU && 3 * bytes > 2 * (double)clade__last_cache(device);
}

void clade__emit_flat(clade_kernel_step *s, const clade_device_info *device, int64_t n) {
  size_t global = (size_t)n, local = device->device_class == CLADE_CPU ? 1 : 64;
  clade_emit_range(s, 1, &global, &local);
}

int64_t clade__piece(const clade_device_info *device, int64_t n, int64_t few, int64_t most) {
  if (device->device_class != CLADE_CPU) return few;
  if (device->max_passes) most = CLADE_MIN(most, CLADE_MAX(device->max_passes / 16, 1)); /* several per element */
  int64_t items = 4 * (int64_t)CLADE_MAX(device->compute_units, 1u), share = clade__ceil_div(n, items);
  return CLADE_MIN(CLADE_MAX(share, CLADE_MIN(most, 256)), most);
}

int64_t clade__rows(const clade_device_info *device, int64_t rows, int64_t row) {
  if (device->device_class != CLADE_CPU || device->max_passes || row < 1) return 1;
  return CLADE_MAX(clade__piece(device, rows * row, row, 1 << 14) / row, 1);
}

void clade__emit_defines(clade_kernel_step *s, const clade__number *defines) {
  for (; defines && defines->name; defines++) clade_emit_define(s, defines->name, defines->value);
}

void clade__emit_items(clade_kernel_step *s, int64_t n) { clade_emit_range(s, 1, &(size_t){(size_t)n}, &(size_t){1}); }

void clade__emit_last(clade_kernel_step *s, int rank, const int64_t *value, int64_t none) {
  int64_t all[CLADE_MAX_RANK];
  for (int i = 0; i < CLADE_MAX_RANK; i++) {
    int at = i - (CLADE_MAX_RANK - rank);
    all[i] = at < 0 ? none : value[at];
  }
  clade_emit_index8(s, CLADE_MAX_RANK, all);
}

void clade__emit_strided(clade_emit *e, const clade_query *q, const char *T, int64_t divisor, int rank,
                         const int64_t *dim, const int64_t *stride) {
  int64_t total = 1, piece;
  for (int i = 0; i < rank; i++) total *= dim[i];
  piece = clade__piece(q->device, total, 1, 1 << 14);
  clade_kernel_step *s = clade_emit_kernel(e, "broadcast_forward_ref");
  clade_emit_define_text(s, "T", T);
  clade_emit_define(s, "MEAN", divisor != 1);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_index(s, piece);
  clade_emit_i32(s, rank);
  clade__emit_last(s, rank, dim, 1);
  clade__emit_last(s, rank, stride, 0);
  clade_emit_f32(s, (float)divisor);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(total, piece));
}

const clade_attr clade__axis_table[] = {{"axis", CLADE_ATTR_I32, offsetof(clade__axis_attrs, axis), 1}, {0}};

clade_val clade__axis_node(clade_graph *g, const clade_op *op, clade_val x, int axis) {
  clade_type type;
  clade__axis_attrs attrs;
  memset(&attrs, 0, sizeof attrs);
  int at = 0;
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK) status = clade__axis("x", axis, type.shape.rank, &at);
  if (status != CLADE_OK) return clade__graph_fail(g, status, op->name);
  attrs.axis = at;
  return clade_node_add(g, op, NULL, &attrs, 1, &x, NULL);
}
