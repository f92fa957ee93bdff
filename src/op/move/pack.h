/* Shape of a blocked value, for the kernels of pack and unpack. */
#ifndef CLADE_PACK_H
#define CLADE_PACK_H

#include "op/group.h"

/* Dense: (outer, before, axis, inner). Packed: (outer, before / interleave, axis / block, inner, block, interleave). */
typedef struct clade__packed {
  int64_t outer, before, axis, inner, block, interleave;
} clade__packed;

typedef struct clade__pack_attrs { /* of pack; unpack has none */
  int32_t axis, block, interleave, tile;
} clade__pack_attrs;

clade__packed clade__packed_of(const clade_type *type);
void clade__packed_args(clade_kernel_step *s, const clade__packed *p);
int64_t clade__packed_blocks(const clade__packed *p); /* pieces of block x interleave elements, padded */

/* The tiled CPU kernel for 32-bit elements in blocks of multiples of sixteen: NULL or why it does not apply, and the
 * emit. */
const char *clade__packed_tiles(const clade_type *blocked);
void clade__packed_emit_tiles(clade_emit *e, const clade_query *q, const clade_type *blocked, const char *kernel);
/* The kernel of GPUs, for whole blocks: NULL or why it does not apply, and the emit. */
const char *clade__packed_turns(const clade_query *q, const clade_type *blocked);
void clade__packed_emit_turned(clade_emit *e, const clade_type *blocked, bool packs);
#define CLADE__PACKED_TURNS .needs_local = CLADE__TURNED_LOCAL, .layouts = layouts, .cost = tiles_cost
/* Estimated seconds; without tiles several times as long. */
double clade__packed_cost(const clade_query *q, bool tiles);

#endif
