/* Shared by the tests of the cycle model. */
#ifndef CYCLES_KIT_H
#define CYCLES_KIT_H

#include "io_kit.h"
#include "model/cycles.h"

static inline bool near(double a, double b) { return a > 0.999999 * b && a < 1.000001 * b; }

/* A device description without its closing brace, so that members can be added. */
#define GRID                                                                                              \
  "{\"format\":1,\"name\":\"grid\",\"kind\":\"grid\",\"fmax_mhz\":{\"value\":100,\"source\":\"routed\"}," \
  "\"rows\":4,\"columns\":2,\"depth\":8,\"tile_rows\":16,\"tile_columns\":8,\"element_bytes\":4,"         \
  "\"bandwidth_gbs\":1,\"tile_cycles\":5"

#endif
