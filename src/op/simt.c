/* Tiles of products in local memory: which there are, which one suits a device and a problem, and how it is launched.
 */
#include "op/simt.h"

#include <math.h>

/* rows, columns: of a group's tile. depth: of the inner axis at a time. tall, wide: of a work-item. */
enum { ROWS, COLUMNS, DEPTH, TALL, WIDE, PARAMS };
const char *const clade__simt_params[] = {"rows", "columns", "depth", "tall", "wide", NULL};

/* `speed`: the share of a device's peak, as a guess of who never ran it: for tall * wide products a work-item reads
 * tall + wide numbers. */
typedef struct tile {
  int32_t row[PARAMS];
  double speed;
} tile;
static const tile tiles[] = {
    {{128, 64, 16, 8, 4}, 0.35}, {{64, 64, 16, 4, 4}, 0.3},   {{32, 32, 16, 4, 4}, 0.2},  {{16, 16, 16, 2, 2}, 0.1},
    {{16, 16, 8, 4, 4}, 0.05},   {{128, 128, 16, 8, 8}, 0.3}, {{64, 128, 16, 4, 8}, 0.3}, {{64, 64, 32, 4, 4}, 0.3},
    {{64, 64, 8, 8, 8}, 0.3},    {{32, 128, 16, 4, 4}, 0.3},  {{64, 32, 16, 4, 4}, 0.3},
};
enum { STARTS = 5 }; /* those behind them are for the tuner alone */

static int64_t items_of(const int32_t *row) { return (int64_t)(row[ROWS] / row[TALL]) * (row[COLUMNS] / row[WIDE]); }

/* Both tiles, with an element between their lines, and the tables of convolutions with offsets of 64 bits. */
static uint64_t local_of(const int32_t *row) {
  return (uint64_t)(row[DEPTH] * (row[ROWS] + row[COLUMNS] + 2)) * 4 + (uint64_t)(row[DEPTH] + row[COLUMNS]) * 32;
}

static const char *too_large(const clade_device_info *device, const int32_t *row) {
  if ((uint64_t)items_of(row) > CLADE_MIN(device->max_group, device->max_item[0]))
    return "the device's groups have fewer work-items than a tile needs";
  return local_of(row) > device->local_bytes ? "the device has less local memory than a tile needs" : NULL;
}

static int64_t groups_of(const clade__simt *p, const int32_t *row) {
  return p->matrices * ((p->rows + row[ROWS] - 1) / row[ROWS]) * ((p->columns + row[COLUMNS] - 1) / row[COLUMNS]);
}

/* By rounds in which all units do a tile. */
void clade__simt_start(const clade_query *q, const clade__simt *p, int32_t *row) {
  double best = HUGE_VAL, units = CLADE_MAX(q->device->compute_units, 1u);
  int chosen = STARTS - 1; /* which needs least of a device */
  for (int i = 0; i < STARTS; i++) {
    const int32_t *t = tiles[i].row;
    double time = ceil((double)groups_of(p, t) / units) * t[ROWS] * t[COLUMNS] / tiles[i].speed;
    if (time >= best || too_large(q->device, t)) continue;
    chosen = i;
    best = time;
  }
  memcpy(row, tiles[chosen].row, sizeof tiles[chosen].row);
}

bool clade__simt_rows(const clade_query *q, int i, int32_t *row) {
  (void)q;
  if (i >= (int)CLADE_COUNT(tiles)) return false;
  memcpy(row, tiles[i].row, sizeof tiles[i].row);
  return true;
}

const char *clade__simt_refuses(const clade_query *q, const clade__simt *p) {
  const int32_t *row = q->row;
  double slices = (double)p->depth / row[DEPTH] + 1;
  double passes = row[DEPTH] * (3 + (double)(row[ROWS] + row[COLUMNS]) / (double)items_of(row));
  const char *reason = too_large(q->device, row);
  return reason ? reason : clade__cut_short(q->device, slices * passes + row[COLUMNS]);
}

double clade__simt_cost(const clade_query *q, const clade__simt *p) {
  const int32_t *row = q->row;
  const tile *t = tiles;
  while (t < tiles + CLADE_COUNT(tiles) - 1 && memcmp(t->row, row, sizeof t->row) != 0) t++;
  double flops = 2.0 * (double)groups_of(p, row) * row[ROWS] * row[COLUMNS] * (double)p->depth;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), t->speed) + 1e-6;
}

void clade__simt_launch(clade_kernel_step *s, const clade_query *q, const clade__simt *p) {
  static const char *const names[PARAMS] = {"ROWS", "COLUMNS", "SLICE", "TALL", "WIDE"};
  const int32_t *row = q->row;
  size_t items = (size_t)items_of(row);
  for (int i = 0; i < PARAMS; i++) clade_emit_define(s, names[i], row[i]);
  /* compilers of CPUs take long over loops that are unrolled */
  clade_emit_define(s, "ROLLED", q->device->device_class == CLADE_CPU || q->device->software);
  size_t global[3] = {(size_t)((p->columns + row[COLUMNS] - 1) / row[COLUMNS]) * items,
                      (size_t)((p->rows + row[ROWS] - 1) / row[ROWS]), (size_t)p->matrices};
  clade_emit_range(s, 3, global, (size_t[]){items, 1, 1});
}
