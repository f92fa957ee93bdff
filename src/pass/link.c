/* Costs between nodes: transfers to and from the fallback device, for which the tuner records two sizes, and program
 * changes. */
#include <stdio.h>

#include "pass/pass.h"

const size_t clade__link_bytes[CLADE__LINK_SIZES] = {4096, 1 << 20};
const char clade__link_op[] = "transfer", clade__change_op[] = "program";

void clade__link_problem(const clade_device_info *to, size_t bytes, char problem[CLADE__LINK_PROBLEM]) {
  char hex[33];
  clade__hash whom = clade__hash_more_text(clade__hash_bytes(to->name, strlen(to->name)), to->driver);
  snprintf(problem, CLADE__LINK_PROBLEM, "u8[%zu] to %s", bytes, clade__hash_text(whom, hex));
}

/* From the first layer that has a record; 0: none. */
static double seconds_of(const clade__tuning *tuning, const char *op, const char *problem) {
  for (int k = 0; k < tuning->n; k++) {
    const clade__record *r = clade__records_find(tuning->layer[k], op, problem, "");
    if (r && r->seconds > 0) return r->seconds;
  }
  return 0;
}

clade__link clade__link_find(const clade__pass_ctx *ctx, int device) {
  const clade__link usual = {5e-5, 1 / 4e9};
  double seconds[CLADE__LINK_SIZES];
  if (!ctx->tuning) return usual;
  for (int i = 0; i < CLADE__LINK_SIZES; i++) {
    char problem[CLADE__LINK_PROBLEM];
    clade__link_problem(&ctx->devices[ctx->fallback], clade__link_bytes[i], problem);
    seconds[i] = seconds_of(ctx->tuning[device], clade__link_op, problem);
    if (!(seconds[i] > 0)) return usual;
  }
  double per_byte = (seconds[1] - seconds[0]) / (double)(clade__link_bytes[1] - clade__link_bytes[0]);
  if (per_byte < 0) per_byte = 0;
  return (clade__link){CLADE_MAX(seconds[0] - per_byte * (double)clade__link_bytes[0], 0.0), per_byte};
}

double clade__change_seconds(const clade__pass_ctx *ctx, int device) {
  const double usual = 2;
  const char *bundles = ctx->devices[device].bundles;
  double seconds = ctx->tuning && bundles ? seconds_of(ctx->tuning[device], clade__change_op, bundles) : 0;
  return seconds > 0 ? seconds : usual;
}
