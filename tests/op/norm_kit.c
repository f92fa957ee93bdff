/* Random shapes for batch normalization. */
#include "norm_kit.h"

#include <string.h>

#include "op/group.h"

enum { CHUNK = 4096 };

clade_shape norm_too_large(op_case *c, clade_shape x, uint64_t second_cache) {
  c->told.second_cache = second_cache;
  c->told.last_cache = (uint64_t)clade__product(&x, 0, x.rank) * clade__element_bytes(c->dtype) * 5 / 4;
  return x;
}

/* A channel fits in L2: whole vectors; chunks, parts and images end at arbitrary positions relative to each other.
 * Of three chunks, two compute units get two and one. */
static clade_shape by_turns(op_case *c, op_random *r) {
  const int64_t channels = op_integer(r, 2, c->small ? 2 : 4), chunks = c->small ? 3 : op_integer(r, 1, 7);
  const int64_t pixels = c->gradient ? 16 : 16 * op_integer(r, 1, 40);
  const int64_t images = (chunks - 1) * CHUNK / pixels + op_integer(r, 1, CHUNK / pixels);
  const clade_shape x = CLADE_SHAPE(c->gradient ? 2 : images, channels, pixels);
  const uint64_t channel = sizeof(float) * (uint64_t)(x.dim[0] * pixels);
  if (!c->small) c->told.units = (uint32_t)op_integer(r, 1, 3);
  return norm_too_large(c, x, 2 * channel / c->told.units + 1); /* also if dy is read with x */
}

/* The last-level cache holds a channel, or a block of sixteen, per compute unit. */
static clade_shape by_channels(op_case *c, op_random *r) {
  const int64_t block = strcmp(c->impl, "blocked") == 0 ? CLADE__LANES : 1;
  if (!c->small) c->told.units = (uint32_t)op_integer(r, 1, 2);
  const int64_t channels = 4 * block * c->told.units - (block > 1 ? op_integer(r, 0, 9) : 0);
  const int64_t pixels = op_integer(r, 2, c->small ? 3 : 40);
  return norm_too_large(c, CLADE_SHAPE(op_integer(r, 1, c->small ? 2 : 9), channels, pixels), 1);
}

/* Contiguous runs, several per chunk of a work-group or divided among chunks, some of whole vectors; or short runs
 * whose pixels are columns of several chunks. */
static clade_shape by_columns(const op_case *c, op_random *r) {
  const bool few = c->small || c->light;
  if (op_chance(r, 0.3))
    return CLADE_SHAPE(few ? op_integer(r, 257, 270) : op_integer(r, 100, 900), op_integer(r, 1, c->small ? 2 : 9),
                       op_integer(r, 1, c->small ? 2 : 31));
  const int64_t pixels = op_chance(r, 0.5) ? op_integer(r, 32, few ? 50 : 300) : 4 * op_integer(r, 8, few ? 80 : 600);
  return CLADE_SHAPE(op_integer(r, 1, c->small ? 2 : 7), op_integer(r, 1, c->small ? 2 : 5), pixels);
}

clade_shape norm_draw(op_case *c, op_random *r) {
  const clade_shape x = op_draw_shape(r, c, 2, 4, c->gradient ? 40 : 8000);
  if (c->number % 2) c->told.group = CLADE__GROUP_ITEMS;                   /* too few work-items for whole channels */
  const bool turns = c->dtype == CLADE_F32 && strcmp(c->impl, "ref") == 0; /* implementations with such a kernel */
  const double few = c->light ? 0.04 : 0.1;
  if (turns && (c->small ? c->number % 3 == 1 : op_chance(r, 3 * few))) return by_turns(c, r);
  if (strcmp(c->impl, "group_last") == 0 && op_chance(r, 0.8)) /* whole copies of channels */
    return CLADE_SHAPE(op_integer(r, 1, 3), 8 * op_integer(r, 0, c->small || c->gradient ? 1 : 4), op_integer(r, 1, 9),
                       op_integer(r, 1,
                                  c->small      ? 3
                                  : c->gradient ? 2
                                                : 40));
  if (c->gradient) return x;
  if (strcmp(c->impl, "group") == 0 && op_chance(r, 0.5)) return by_columns(c, r);
  if (c->small ? c->number % 3 == 0 : op_chance(r, few)) return by_channels(c, r);
  if (c->small || !op_chance(r, few)) return x;
  if (op_chance(r, 0.5)) return CLADE_SHAPE(op_integer(r, 300, 900), op_integer(r, 1, 20)); /* more than one chunk */
  return CLADE_SHAPE(op_integer(r, 1, 9), op_integer(r, 1, 5), op_integer(r, 20, 40), op_integer(r, 20, 40));
}
