/* Teams of work-items that share a line: their sizes and launches. */
#include "op/group.h"

/* Two team sizes suffice, which keeps the number of compiled kernels small: for short lines a group has many small
 * teams. The items of a spread team alternate with those of other teams, so that 32 neighboring lines are read at once.
 */
enum { SMALL_TEAM = 8, LINES_BESIDE = CLADE__GROUP_ITEMS / SMALL_TEAM };
enum { SHORT = 256, FEWEST_PARTS = 1024, LEAST_PART = 4096 };

clade__group clade__group_of(int64_t n, int64_t inner) {
  bool small = n <= SHORT || inner >= LINES_BESIDE;
  int64_t team = small ? SMALL_TEAM : CLADE__GROUP_ITEMS;
  return (clade__group){team, CLADE__GROUP_ITEMS / team, inner > 1};
}

double clade__group_turns(const clade__group *g, int64_t n) {
  return (double)n / (double)(g->team * (g->spread ? 1 : 4)) + 2;
}

const char *clade__group_refuses(const clade_query *q, double passes) {
  enum { EXCHANGES = 16 };
  if (CLADE_MIN(q->device->max_group, q->device->max_item[0]) < CLADE__GROUP_ITEMS)
    return "the device's groups have fewer than 256 work-items";
  return clade__cut_short(q->device, passes + 4 * EXCHANGES);
}

void clade__emit_groups(clade_kernel_step *s, const clade_query *q, const clade__group *g, int64_t lines) {
  const clade_unit_info *ptx = &q->device->unit[CLADE_UNIT_PTX];
  size_t groups = (size_t)clade__ceil_div(lines, g->beside), items = (size_t)(g->team * g->beside);
  clade_emit_define(s, "TEAM", g->team);
  clade_emit_define(s, "BESIDE", g->beside);
  clade_emit_define(s, "SPREAD", g->spread);
  const bool consecutive = !g->spread || g->beside == 1;
  clade_emit_define(s, "SHUFFLES", ptx->used && !ptx->reason && consecutive); /* a reason means that PTX is emulated */
  clade_emit_range(s, 1, (size_t[]){groups * items}, &items);
}

void clade__emit_fours(clade_kernel_step *s, int64_t elements) {
  const size_t items = (size_t)((elements + 3) / 4), group = CLADE__GROUP_ITEMS;
  clade_emit_range(s, 1, &items, &group);
}

void clade__emit_strided_fours(clade_emit *e, const char *T, int64_t divisor, int rank, const int64_t *dim,
                               const int64_t *stride) {
  int64_t total = 1;
  for (int i = 0; i < rank; i++) total *= dim[i];
  clade_kernel_step *s = clade_emit_kernel(e, "broadcast_forward_group");
  if (s) s->file = "broadcast_group";
  clade_emit_define_text(s, "T", T);
  clade_emit_define(s, "MEAN", divisor != 1);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_i32(s, rank);
  clade__emit_last(s, rank, dim, 1);
  clade__emit_last(s, rank, stride, 0);
  clade_emit_f32(s, (float)divisor);
  clade__emit_fours(s, total);
}

int64_t clade__group_part(int64_t lines, int64_t n) {
  int64_t parts = CLADE_MIN(clade__ceil_div(FEWEST_PARTS, lines), n / LEAST_PART);
  return clade__up(clade__ceil_div(n, parts), 4);
}

bool clade__group_units(const clade_query *q) { return q->device->unit[CLADE_UNIT_PTX].name; }

double clade__group_cost(const clade_query *q, double flops) {
  return clade__cost(q->device, flops, clade__node_bytes(q->node), 0.5);
}
