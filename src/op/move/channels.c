/* Division of work for normalization over channels. */
#include "op/norm/batch_norm.h"

/* Elements per partial sum: CHUNK for vectors of sixteen, SHORT_CHUNK for short runs, which are summed one by one. */
enum { CHUNK = 4096, SHORT_CHUNK = 256, MOST_CHUNKS = 4096, SHORT_RUN = 256, SHORTEST_RUN = 32 };

clade__channels clade__channels_of(const clade_type *type) {
  const clade_shape *x = &type->shape;
  clade__channels c = {.samples = x->dim[0], .channels = x->dim[1], .inner = clade__product(x, 2, x->rank)};
  c.block = CLADE_MAX(type->layout.block, 1);
  c.groups = clade__ceil_div(c.channels, c.block);
  c.count = c.samples * c.inner;
  c.chunk = c.block > 1 || c.inner < 16 ? SHORT_CHUNK : CHUNK;
  while (c.chunk < c.count / MOST_CHUNKS) c.chunk *= 2;
  c.chunks = CLADE_MAX(clade__ceil_div(c.count, c.chunk), 1);
  return c;
}

bool clade__channels_whole(const clade_query *q, const clade__channels *c, int operands) {
  const clade_type *x = &q->node->in[0];
  int64_t units = CLADE_MAX(q->device->compute_units, 1u), all = operands * (int64_t)clade__element_bytes(x->dtype);
  bool even = c->groups % units == 0 || c->groups >= 8 * units;
  return !q->device->max_passes && clade__streams(q->device, x) && even &&
         2 * all * c->count * c->block * units <= (int64_t)clade__last_cache(q->device);
}

int64_t clade__channels_share(const clade_query *q, const clade__channels *c, int operands) {
  enum { MOST_TURNS = 1024, LEAST_PART = 16 };
  const clade_device_info *device = q->device;
  const clade_type *x = &q->node->in[0];
  const int64_t cache = CLADE_MIN(clade__second_cache(device), (int64_t)clade__last_cache(device));
  const int64_t units = CLADE_MAX(device->compute_units, 1u);
  const int64_t part = operands * (int64_t)sizeof(float) * c->count / units;
  const bool few = c->channels < MOST_TURNS && c->channels * c->count <= INT32_MAX;
  if (!device->persistent || device->max_passes || !clade__streams(device, x)) return 0;
  if (x->dtype != CLADE_F32 || c->block > 1 || c->inner % CLADE__LANES || !few) return 0;
  return part >= cache / LEAST_PART && part <= cache ? clade__ceil_div(c->chunks, units) : 0;
}

void clade__channels_emit(clade_kernel_step *s, const clade__channels *c) {
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, c->channels);
  clade_emit_index(s, c->inner);
  clade_emit_index(s, c->count);
  clade_emit_index(s, c->chunk);
  clade_emit_index(s, c->chunks);
  clade_emit_index(s, c->block);
}

/* Loop iterations of one pass over a chunk, with its beginning read twice, in runs of `inner`. */
const char *clade__channels_accept(const clade_query *q) {
  clade__channels c = clade__channels_of(&q->node->in[0]);
  double runs = (double)c.chunk / (double)CLADE_MAX(c.inner, 1) + 2;
  double in_run = (double)CLADE_MIN(c.inner, c.chunk), passes = 2 * runs * (in_run / 16 + CLADE_MIN(in_run, 15) + 3);
  return clade__cut_short(q->device, CLADE_MAX(passes, 2 * (double)c.chunks + 2));
}

const char *clade__channels_blocked(const clade_query *q) {
  return clade__channels_of(&q->node->in[0]).inner > 1 ? NULL : "requires more than one pixel per channel";
}

/* Two passes over all operands. */
double clade__channels_cost(const clade_query *q) {
  clade__channels c = clade__channels_of(&q->node->in[0]);
  double bytes = 2 * clade__node_bytes(q->node);
  double efficiency = c.block > 1 ? 0.5 : c.inner < 16 ? 0.05 : 0.3;
  return clade__cost(q->device, 12.0 * (double)c.channels * (double)c.count, bytes, efficiency);
}

static size_t sums_bytes(const clade__channels *c) {
  return (size_t)clade__up(c->channels * c->chunks * 2 * (int64_t)sizeof(float), 64);
}

size_t clade__channels_workspace(const clade_query *q, int operands) {
  const clade__channels c = clade__channels_of(&q->node->in[0]);
  const int64_t window = clade__channels_share(q, &c, operands) ? operands * c.count : 0;
  return sums_bytes(&c) + (size_t)window * sizeof(float);
}

void clade__channels_window(clade_kernel_step *s, const clade_query *q) {
  const clade__channels c = clade__channels_of(&q->node->in[0]);
  clade_emit_workspace(s, sums_bytes(&c), sizeof(float));
}

clade__channels clade__channels_run(const clade_type *x) {
  clade__channels c = clade__channels_of(x);
  if (x->layout.block) c.samples = c.count, c.inner = 1;
  return c;
}

clade__columns clade__columns_of(const clade_type *x) {
  const clade__channels c = clade__channels_run(x);
  const bool apart = c.inner < SHORTEST_RUN;
  clade__columns p = {.columns = c.channels, .beside = 1, .run = c.inner, .length = c.count};
  if (apart) p = (clade__columns){.columns = c.channels * c.inner, .beside = c.inner, .run = 1, .length = c.samples};
  p.chunk = p.run > SHORT_RUN ? CHUNK : SHORT_CHUNK;
  while (p.chunk < p.length / MOST_CHUNKS) p.chunk *= 2;
  p.chunks = CLADE_MAX(clade__ceil_div(p.length, p.chunk), 1);
  /* adjacent columns and channels, so teams are spread even if there is only one */
  p.sums = apart ? clade__group_of(p.chunk, CLADE_MAX(p.columns, 2)) : clade__group_of(p.run, 1);
  p.join = clade__group_of(p.chunks * p.beside, CLADE_MAX(c.channels, 2));
  return p;
}

bool clade__columns_whole(const clade_query *q, clade__group *team) {
  enum { ITEMS = 1024, BESIDE = 8, MOST_TURNS = 16 };
  const clade__channels c = clade__channels_run(&q->node->in[0]);
  const int64_t beside = c.inner > 1 ? 1 : BESIDE;
  *team = (clade__group){.team = ITEMS / beside, .beside = beside, .spread = true};
  return CLADE_MIN(q->device->max_group, q->device->max_item[0]) >= ITEMS && c.count <= MOST_TURNS * team->team;
}

clade_kernel_step *clade__columns_emit_whole(clade_emit *e, const clade_query *q, const char *kernel,
                                             const clade__group *team, int outputs) {
  const clade__channels c = clade__channels_run(&q->node->in[0]);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  for (int i = 0; i < 5; i++) clade_emit_in(s, i);
  for (int i = 0; i < outputs; i++) clade_emit_out(s, i);
  clade_emit_index(s, c.channels);
  clade_emit_index(s, CLADE_MAX(c.inner, 1));
  clade_emit_index(s, c.count);
  clade__emit_groups(s, q, team, c.channels);
  return s;
}

const char *clade__columns_refuses(const clade_query *q, double times) {
  const clade__columns p = clade__columns_of(&q->node->in[0]);
  const double run = (double)(p.sums.spread ? p.chunk : CLADE_MIN(p.run, p.chunk)), runs = (double)p.chunk / run + 2;
  const double sums = times * runs * (clade__group_turns(&p.sums, (int64_t)run) + 1);
  return clade__group_refuses(q, CLADE_MAX(sums, 2 * clade__group_turns(&p.join, p.chunks * p.beside)));
}

const char *clade__columns_last_refuses(const clade_query *q, double times) {
  clade_type x = q->node->in[0];
  clade_node n = *q->node;
  clade_query there = *q;
  const char *reason = clade__channels_last_refuse(&x.shape);
  if (reason) return reason;
  x.layout = clade__channels_last(1, x.shape.dim[1]);
  n.in = &x;
  there.node = &n;
  return clade__columns_refuses(&there, times);
}

double clade__columns_cost(const clade_query *q) {
  const clade__channels c = clade__channels_of(&q->node->in[0]);
  clade__group team;
  const int launches = clade__columns_whole(q, &team) ? 1 : 3;
  return clade__group_cost(q, 24.0 * (double)c.channels * (double)c.count) +
         (launches - 1) * clade__cost(q->device, 0, 0, 1);
}

size_t clade__columns_workspace(const clade_query *q) {
  const clade__columns p = clade__columns_of(&q->node->in[0]);
  clade__group team;
  return clade__columns_whole(q, &team) ? 0 : (size_t)(CLADE_MAX(p.columns, 1) * p.chunks) * 2 * sizeof(float);
}

void clade__columns_emit(clade_kernel_step *s, const clade__columns *p) {
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, p->columns);
  clade_emit_index(s, p->beside);
  clade_emit_index(s, p->run);
  clade_emit_index(s, p->length);
  clade_emit_index(s, p->chunk);
  clade_emit_index(s, p->chunks);
}

clade_status clade__want_channels(const clade_node *n, int first, int count, const char *const *names) {
  const clade_shape *x = &n->in[0].shape;
  char text[2][200];
  for (int i = 0; i < count; i++) {
    const clade_type *t = &n->in[first + i];
    if (t->dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "%s: %s is %s; expected f32", n->op->name, names[i], clade_dtype_name(t->dtype));
    if (t->shape.rank != 1 || t->shape.dim[0] != x->dim[1])
      return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s; expected one number for each channel (axis 1) of x, %s", n->op->name,
                        names[i], clade_shape_text(&t->shape, text[0], sizeof text[0]),
                        clade_shape_text(x, text[1], sizeof text[1]));
  }
  return CLADE_OK;
}
