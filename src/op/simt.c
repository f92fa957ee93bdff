/* Tiles of products in local memory: which there are, which one suits a device and a problem, and how it is launched.
 */
#include "op/simt.h"

#include <math.h>

/* BM x BN: a work-group's tile. BK: of the inner axis at a time. TM x TN: a work-item's tile. */
enum { BM, BN, BK, TM, TN, PARAMS };
const char *const clade__simt_params[] = {"BM", "BN", "BK", "TM", "TN", NULL};

/* `speed`: the share of a device's peak, as a guess of who never ran it: for TM * TN products a work-item reads
 * TM + TN numbers. */
typedef struct tile {
  int32_t config[PARAMS];
  double speed;
} tile;
static const tile tiles[] = {
    {{128, 64, 16, 8, 4}, 0.35}, {{64, 64, 16, 4, 4}, 0.3},   {{32, 32, 16, 4, 4}, 0.2},  {{16, 16, 16, 2, 2}, 0.1},
    {{16, 16, 8, 4, 4}, 0.05},   {{128, 128, 16, 8, 8}, 0.3}, {{64, 128, 16, 4, 8}, 0.3}, {{64, 64, 32, 4, 4}, 0.3},
    {{64, 64, 8, 8, 8}, 0.3},    {{32, 128, 16, 4, 4}, 0.3},  {{64, 32, 16, 4, 4}, 0.3},
};
enum { STARTS = 5 }; /* those behind them are for the tuner alone */

static int64_t items_of(const int32_t *config) {
  return (int64_t)(config[BM] / config[TM]) * (config[BN] / config[TN]);
}

/* Both tiles, with an element between their lines, and the tables of convolutions with offsets of 64 bits. */
static uint64_t local_of(const int32_t *config) {
  return (uint64_t)(config[BK] * (config[BM] + config[BN] + 2)) * 4 + (uint64_t)(config[BK] + config[BN]) * 32;
}

static const char *too_large(const clade_device_info *device, const int32_t *config) {
  if ((uint64_t)items_of(config) > CLADE_MIN(device->max_group, device->max_item[0]))
    return "the device's groups have fewer work-items than a tile needs";
  return local_of(config) > device->local_bytes ? "the device has less local memory than a tile needs" : NULL;
}

static int64_t groups_of(const clade__simt *p, const int32_t *config) {
  return p->matrices * ((p->m + config[BM] - 1) / config[BM]) * ((p->n + config[BN] - 1) / config[BN]);
}

/* By rounds in which all units do a tile. */
void clade__simt_defaults(const clade_query *q, const clade__simt *p, int32_t *config) {
  double best = HUGE_VAL, units = CLADE_MAX(q->device->compute_units, 1u);
  int chosen = STARTS - 1; /* which needs least of a device */
  for (int i = 0; i < STARTS; i++) {
    const int32_t *t = tiles[i].config;
    double time = ceil((double)groups_of(p, t) / units) * t[BM] * t[BN] / tiles[i].speed;
    if (time >= best || too_large(q->device, t)) continue;
    chosen = i;
    best = time;
  }
  memcpy(config, tiles[chosen].config, sizeof tiles[chosen].config);
}

bool clade__simt_configs(const clade_query *q, int i, int32_t *config) {
  (void)q;
  if (i >= (int)CLADE_COUNT(tiles)) return false;
  memcpy(config, tiles[i].config, sizeof tiles[i].config);
  return true;
}

const char *clade__simt_refuses(const clade_query *q, const clade__simt *p) {
  const int32_t *config = q->config;
  double slices = (double)p->k / config[BK] + 1;
  double passes = config[BK] * (3 + (double)(config[BM] + config[BN]) / (double)items_of(config));
  const char *reason = too_large(q->device, config);
  return reason ? reason : clade__cut_short(q->device, slices * passes + config[BN]);
}

double clade__simt_cost(const clade_query *q, const clade__simt *p) {
  const int32_t *config = q->config;
  const tile *t = tiles;
  while (t < tiles + CLADE_COUNT(tiles) - 1 && memcmp(t->config, config, sizeof t->config) != 0) t++;
  double flops = 2.0 * (double)groups_of(p, config) * config[BM] * config[BN] * (double)p->k;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), t->speed) + 1e-6;
}

void clade__simt_launch(clade_kernel_step *s, const clade_query *q, const clade__simt *p) {
  static const char *const names[PARAMS] = {"BM", "BN", "BK", "TM", "TN"};
  const int32_t *config = q->config;
  size_t items = (size_t)items_of(config);
  for (int i = 0; i < PARAMS; i++) clade_emit_define(s, names[i], config[i]);
  /* compilers of CPUs take long over loops that are unrolled */
  clade_emit_define(s, "ROLLED", q->device->device_class == CLADE_CPU || q->device->software);
  size_t global[3] = {(size_t)((p->n + config[BN] - 1) / config[BN]) * items,
                      (size_t)((p->m + config[BM] - 1) / config[BM]), (size_t)p->matrices};
  clade_emit_range(s, 3, global, (size_t[]){items, 1, 1});
}
