/* conv2d and conv2d_data on GPUs by Winograd's F(2x2, 3x3) (cl_kernels/conv2d_winograd_group.cl): one launch transforms
 * the weights, and a fused one does everything else. */
#include "op/conv/conv.h"

#include <math.h>

/* Parameters: side of a tile's results; rows and tiles of a work-group; inner channels of a slice. TM x TN: register
 * tile of a work-item. */
enum { SIDE, BM, BN, BK, PARAMS };
enum { TAPS = 16, TM = 8, TN = 8 };
static const int32_t configs[][PARAMS] = {{2, 32, 64, 8}, {2, 32, 32, 8}, {2, 16, 32, 8}};
/* Estimated fraction of the device's peak. */
static const double speeds[CLADE_COUNT(configs)] = {0.6, 0.5, 0.3};

static int64_t parts(int64_t n, int64_t of) { return clade__ceil_div(n, of); }
static int64_t tiles_of(const clade__conv *g) { return g->n * parts(g->result[0], 2) * parts(g->result[1], 2); }
static int64_t items_of(const int32_t *config) { return (int64_t)TAPS * (config[BM] / TM) * (config[BN] / TN); }
static uint64_t local_of(const int32_t *config) {
  return sizeof(float) * TAPS * (uint64_t)config[BK] * (uint64_t)(config[BM] + config[BN]);
}
static bool fits(const clade_query *q, const int32_t *config) {
  return local_of(config) <= clade__local_most(q->device) &&
         (uint64_t)items_of(config) <= CLADE_MIN(q->device->max_group, q->device->max_item[0]);
}

static const char *accept(const clade_query *q) {
  const int32_t *config = q->config;
  const clade__conv g = clade__conv_of(q->node);
  const char *reason = clade__conv_refuses(q, CLADE__CONV_3X3 | CLADE__CONV_ONE_GROUP | CLADE__CONV_F32);
  if (reason) return reason;
  if (CLADE_MAX(g.source[0], g.source[1]) > INT32_MAX / 2) return "requires fewer than 2^30 lines";
  if (!fits(q, config)) return "the device's groups or their local memory are too small";
  const double of_slice = config[BK] * (TM * TN + TM + TN + 16.0) + 64;
  return clade__cut_short(q->device, (double)parts(g.inner, config[BK]) * of_slice + 4096);
}

/* ---- parameters ---- */
/* In rounds of one work-group per compute unit. */
static double flops_of(const clade_query *q, const clade__conv *g, const int32_t *config) {
  double groups = ceil((double)tiles_of(g) / config[BN]) * ceil((double)g->rows / config[BM]);
  double units = (double)clade__conv_units(q);
  return ceil(groups / units) * units * 2 * TAPS * config[BM] * config[BN] * (double)g->inner;
}

static int config_of(const int32_t *config) {
  int i = 0;
  while (i < (int)CLADE_COUNT(configs) - 1 && memcmp(config, configs[i], sizeof configs[i]) != 0) i++;
  return i;
}

static void defaults(const clade_query *q, int32_t *config) {
  const clade__conv g = clade__conv_of(q->node);
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
static const clade_space space = {sizeof(clade_space), params, defaults, nth};

/* ---- steps ---- */
/* Sizes of the transformed weights, padded to whole slices. */
static int64_t all_rows(const clade_query *q, const clade__conv *g) { return clade__up(g->rows, q->config[BM]); }
static int64_t all_inner(const clade_query *q, const clade__conv *g) { return clade__up(g->inner, q->config[BK]); }

static size_t workspace(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  return (size_t)(all_rows(q, &g) * all_inner(q, &g)) * TAPS * sizeof(float);
}

static double cost(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  const double bytes = clade__node_bytes(q->node) + 2 * (double)workspace(q);
  return clade__cost(q->device, flops_of(q, &g, q->config), bytes, speeds[config_of(q->config)]) + 1e-6;
}

static void define(clade_kernel_step *s, const clade_query *q) {
  static const char *const names[PARAMS] = {"OUT_SIDE", "BM", "BN", "BK"};
  const bool rolled = q->device->device_class == CLADE_CPU || q->device->software;
  for (int i = 0; i < PARAMS; i++) clade_emit_define(s, names[i], q->config[i]);
  clade__emit_defines(s, CLADE__DEFINES({"TM", TM}, {"TN", TN}, {"ROLLED", rolled}));
}

static void emit_weights(clade_emit *e, const clade_query *q, const clade__conv *g) {
  const int64_t numbers[] = {g->rows, g->inner, g->w_row, g->w_inner, all_rows(q, g), all_inner(q, g)};
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_group_weights");
  define(s, q);
  clade_emit_in(s, 1);
  clade_emit_workspace(s, 0, sizeof(float));
  for (size_t i = 0; i < CLADE_COUNT(numbers); i++) clade_emit_index(s, numbers[i]);
  clade_emit_i32(s, !g->forward);
  clade_emit_range(s, 2, (size_t[]){(size_t)all_rows(q, g), (size_t)all_inner(q, g)}, (size_t[]){32, 1});
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const int32_t *config = q->config;
  const clade__conv g = clade__conv_of(q->node);
  const size_t items = (size_t)items_of(config);
  clade_kernel_step *s;
  emit_weights(e, q, &g);
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_winograd_group", CLADE__SINGLE, NULL, &s));
  define(s, q);
  clade_emit_in(s, 0);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  CLADE__EMIT8(s, g.n, g.rows, g.inner, g.source[0], g.source[1], g.result[0], g.result[1]);
  for (int i = 0; i < 2; i++) clade_emit_i32(s, (int32_t)clade__map_first(g.map[i], 3));
  clade_emit_index(s, all_rows(q, &g));
  clade__gather_epilogue(s, q->node);
  size_t global[2] = {(size_t)parts(tiles_of(&g), config[BN]) * items, (size_t)parts(g.rows, config[BM])};
  clade_emit_range(s, 2, global, (size_t[]){items, 1});
  return CLADE_OK;
}

enum { LEAST_LOCAL = 24 << 10 }; /* of the smallest groups */
const clade_impl clade__gather_winograd_group =
    CLADE__CONV_IMPL(.name = "winograd_group", .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU,
                     .needs_local = LEAST_LOCAL, .accept = accept, .cost = cost, .workspace = workspace, .emit = emit,
                     .space = &space, .file = "conv2d_winograd_group", .loose = true);
