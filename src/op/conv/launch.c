/* Layouts of convolutions' operands, and the arguments that their kernels share. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

/* ---- layouts ---- */
static void as_given(const clade_query *q, int32_t *config) { (void)q, (void)config; }
static bool below(int count, int i, int32_t *config) { return config[0] = i, i < count; }
static bool each_of_two(const clade_query *q, int i, int32_t *config) { return (void)q, below(2, i, config); }
static bool each_of_three(const clade_query *q, int i, int32_t *config) { return (void)q, below(3, i, config); }
static const char *const params[] = {"layouts", NULL};
const clade_space clade__conv_two_layouts = {sizeof(clade_space), params, as_given, each_of_two};
const clade_space clade__conv_three_layouts = {sizeof(clade_space), params, as_given, each_of_three};

bool clade__gather_whole(const clade_shape *operand, const clade_shape *y) {
  int first = operand->rank - 3;
  if (first < 0 || (first == 0 && y->dim[2] * y->dim[3] == 1)) return false;
  for (int i = 0; i < 3; i++)
    if (operand->dim[first + i] != y->dim[1 + i]) return false;
  return true;
}

void clade__gather_images(const clade_query *q, int alternative, clade_layout *in, clade_layout *out) {
  const clade_node *n = q->node;
  if (alternative == CLADE__DENSE) return;
  out[0] = clade__channel_blocks();
  if (alternative == CLADE__BLOCKED) in[0] = out[0];
  for (int i = 2; i < n->n_in; i++)
    if (clade__gather_whole(&n->in[i].shape, &n->out[0].shape))
      in[i] = (clade_layout){.axis = (int16_t)(n->in[i].shape.rank - 3), .block = CLADE__LANES};
}

clade_layout clade__gather_weights(const clade_query *q, int block, int tile) {
  const int rows = q->node->op == &clade__op_conv2d ? 0 : 1; /* their axis */
  return (clade_layout){.axis = (int16_t)rows, .block = (uint16_t)block, .tile = (uint16_t)tile};
}

clade_layout clade__gather_panels(const clade_query *q, int block) {
  return clade__gather_weights(q, block, q->node->op == &clade__op_conv2d ? 0 : CLADE_PANELS);
}

/* ---- launches ---- */
clade_status clade__gather_begin(clade_emit *e, const clade_query *q, const char *kernel, clade__gather_wide wide,
                                 const clade__number *defines, clade_kernel_step **out) {
  const clade_node *n = q->node;
  clade_kernel_step *s = *out = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "TB", clade_dtype_name(n->in[1].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade__emit_defines(s, defines);
  CLADE_TRY(clade__epilogue_define(s, n));
  if (wide == CLADE__SINGLE) return CLADE_OK;
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  return clade__epilogue_define16_whole(s, n);
}

void clade__conv_operands(clade_kernel_step *s) {
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
}

void clade__conv_sizes(clade_kernel_step *s, const clade__conv *c) {
  CLADE__EMIT8(s, c->n, c->groups, c->rows, c->inner, c->source[0], c->source[1], c->result[0], c->result[1]);
}

void clade__conv_maps(clade_kernel_step *s, const clade__conv *c) {
  const clade__map_1d *y = &c->map[0], *x = &c->map[1];
  CLADE__EMIT8(s, y->mul, y->add, y->delta, y->div, x->mul, x->add, x->delta, x->div);
}

void clade__conv_problem(clade_kernel_step *s, const clade__conv *c, int count, const int64_t *more) {
  int64_t numbers[8] = {c->kernel[0], c->kernel[1]};
  for (int i = 0; i < count; i++) numbers[2 + i] = more[i];
  clade__conv_sizes(s, c);
  clade_emit_index8(s, 2 + count, numbers);
  clade__conv_maps(s, c);
}

/* The element of (image, channel, pixel) is at image * s5 + channel / 16 * s4 + channel % 16 * s6 + pixel * s7. If all
 * channels are last, they are one block. */
static void strides_of(const clade_type *t, const clade_shape *y, int64_t s[CLADE_MAX_RANK]) {
  const int64_t block = t->layout.block, pixels = y->dim[2] * y->dim[3];
  int64_t own[CLADE_MAX_RANK] = {0};
  clade__broadcast_strides(&t->shape, y, own);
  s[4] = CLADE__LANES * (block ? pixels : own[1]);
  s[5] = block && own[0] ? clade__up(y->dim[1], block) * pixels : own[0];
  s[6] = block ? 1 : own[1];
  s[7] = block ? block : y->dim[3] == 1 ? own[2] : own[3];
}

void clade__gather_strides(const clade_node *n, int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK]) {
  for (int i = 2; i < n->n_in; i++) strides_of(&n->in[i], &n->out[0].shape, strides[i - 2]);
}

void clade__gather_epilogue(clade_kernel_step *s, const clade_node *n) {
  int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}};
  clade__gather_strides(n, strides);
  clade__epilogue_args(s, n, strides);
}

clade_status clade__gather_end(clade_kernel_step *s, const clade_query *q, int64_t items) {
  int64_t strides[CLADE_MAX_RANK] = {0};
  strides_of(&q->node->out[0], &q->node->out[0].shape, strides);
  clade_emit_index8(s, 8, strides);
  clade__gather_epilogue(s, q->node);
  clade__emit_items(s, items);
  return CLADE_OK;
}
