/* conv2d and conv2d_data on GPUs by Winograd's F(2x2, 3x3) (cl_kernels/conv2d_winograd_group.cl): one launch transforms
 * the weights, and a fused one does everything else. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

/* Parameters: side of a tile's results; rows and tiles of a work-group; inner channels of a slice. TM x TN: register
 * tile of a work-item. */
enum { SIDE, BM, BN, BK, PARAMS };
enum { TAPS = 16, TM = 8, TN = 8 };
static const int32_t configs[][PARAMS] = {{2, 32, 64, 8}, {2, 32, 32, 8}, {2, 16, 32, 8}};
/* Estimated fraction of the device's peak. */
static const double speeds[CLADE_COUNT(configs)] = {0.6, 0.5, 0.3};

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }
static int64_t tiles_of(const clade__gather *g) { return g->n * parts(g->result[0], 2) * parts(g->result[1], 2); }
static int64_t items_of(const int32_t *config) { return (int64_t)TAPS * (config[BM] / TM) * (config[BN] / TN); }
static uint64_t local_of(const int32_t *config) {
  return sizeof(float) * TAPS * (uint64_t)config[BK] * (uint64_t)(config[BM] + config[BN]);
}
static bool fits(const clade_query *q, const int32_t *config) {
  return local_of(config) <= clade__local_most(q->device) &&
         (uint64_t)items_of(config) <= CLADE_MIN(q->device->max_group, q->device->max_item[0]);
}

const char *clade__winograd_group_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  const int32_t *config = q->config;
  clade__gather g = clade__gather_of(n);
  for (int i = 0; i < 2; i++)
    if (g.kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1) return "made for windows of 3 x 3, step 1";
  if (g.groups != 1) return "made for one group";
  if (n->in[0].dtype != CLADE_F32) return "its sums need operands of f32";
  if (CLADE_MAX(g.source[0], g.source[1]) > INT32_MAX / 2) return "made for fewer than 2^30 lines";
  if (!fits(q, config)) return "the device's groups or their local memory are too small";
  const double of_slice = config[BK] * (TM * TN + TM + TN + 16.0) + 64;
  return clade__cut_short(q->device, (double)parts(g.inner, config[BK]) * of_slice + 4096);
}

/* ---- parameters ---- */
/* In rounds of one work-group per compute unit. */
static double flops_of(const clade_query *q, const clade__gather *g, const int32_t *config) {
  double groups = ceil((double)tiles_of(g) / config[BN]) * ceil((double)g->rows / config[BM]);
  double units = CLADE_MAX(q->device->compute_units, 1u);
  return ceil(groups / units) * units * 2 * TAPS * config[BM] * config[BN] * (double)g->inner;
}

static int config_of(const int32_t *config) {
  int i = 0;
  while (i < (int)CLADE_COUNT(configs) - 1 && memcmp(config, configs[i], sizeof configs[i]) != 0) i++;
  return i;
}

static void defaults(const clade_query *q, int32_t *config) {
  clade__gather g = clade__gather_of(q->node);
  int best = (int)CLADE_COUNT(configs) - 1;
  for (int i = best - 1; i >= 0; i--)
    if (fits(q, configs[i]) && flops_of(q, &g, configs[i]) / speeds[i] <= flops_of(q, &g, configs[best]) / speeds[best])
      best = i;
  memcpy(config, configs[best], sizeof configs[best]);
}

static bool nth(const clade_query *q, int i, int32_t *config) {
  (void)q;
  if (i >= (int)CLADE_COUNT(configs)) return false;
  memcpy(config, configs[i], sizeof configs[i]);
  return true;
}

static const char *const params[] = {"side", "BM", "BN", "BK", NULL};
const clade_space clade__winograd_group_space = {sizeof(clade_space), params, defaults, nth};

/* ---- steps ---- */
/* Sizes of the transformed weights, padded to whole slices. */
static int64_t all_rows(const clade_query *q, const clade__gather *g) { return clade__up(g->rows, q->config[BM]); }
static int64_t all_inner(const clade_query *q, const clade__gather *g) { return clade__up(g->inner, q->config[BK]); }

size_t clade__winograd_group_workspace(const clade_query *q) {
  clade__gather g = clade__gather_of(q->node);
  return (size_t)(all_rows(q, &g) * all_inner(q, &g)) * TAPS * sizeof(float);
}

double clade__winograd_group_cost(const clade_query *q) {
  clade__gather g = clade__gather_of(q->node);
  const double bytes = clade__node_bytes(q->node) + 2 * (double)clade__winograd_group_workspace(q);
  return clade__cost(q->device, flops_of(q, &g, q->config), bytes, speeds[config_of(q->config)]) + 1e-6;
}

static void define(clade_kernel_step *s, const clade_query *q) {
  static const char *const names[PARAMS] = {"OUT_SIDE", "BM", "BN", "BK"};
  for (int i = 0; i < PARAMS; i++) clade_emit_define(s, names[i], q->config[i]);
  clade_emit_define(s, "TM", TM);
  clade_emit_define(s, "TN", TN);
  clade_emit_define(s, "ROLLED", q->device->device_class == CLADE_CPU || q->device->software);
}

static void emit_weights(clade_emit *e, const clade_query *q, const clade__gather *g) {
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_group_weights");
  define(s, q);
  clade_emit_in(s, 1);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index(s, g->rows);
  clade_emit_index(s, g->inner);
  clade_emit_index(s, g->w_row);
  clade_emit_index(s, g->w_inner);
  clade_emit_index(s, all_rows(q, g));
  clade_emit_index(s, all_inner(q, g));
  clade_emit_i32(s, g->map(clade__conv_window(q->node), 0).delta < 0);
  clade_emit_range(s, 2, (size_t[]){(size_t)all_rows(q, g), (size_t)all_inner(q, g)}, (size_t[]){32, 1});
}

clade_status clade__winograd_group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const int32_t *config = q->config;
  clade__gather g = clade__gather_of(n);
  const size_t items = (size_t)items_of(config);
  emit_weights(e, q, &g);
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_group");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  define(s, q);
  CLADE_TRY(clade__epilogue_define(s, n));
  clade_emit_in(s, 0);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index8(s, 7, (int64_t[]){g.n, g.rows, g.inner, g.source[0], g.source[1], g.result[0], g.result[1]});
  for (int i = 0; i < 2; i++) {
    clade__map_1d m = g.map(clade__conv_window(n), i);
    clade_emit_i32(s, (int32_t)(m.delta < 0 ? m.add + 2 * m.delta : m.add));
  }
  clade_emit_index(s, all_rows(q, &g));
  clade__gather_epilogue(s, n);
  size_t global[2] = {(size_t)parts(tiles_of(&g), config[BN]) * items, (size_t)parts(g.rows, config[BM])};
  clade_emit_range(s, 2, global, (size_t[]){items, 1});
  return CLADE_OK;
}
