/* The numbers by which layers are divided over ranks: given by the user, measured, or assumed. */
#include "parallel/parallel.h"

#include <math.h>

#include "comm/comm.h"

clade__speeds clade__speeds_assumed(clade__speeds s) {
  const bool link = s.link_us > 0 || s.link_gbits > 0;
  if (!link) s.link_us = 10;
  if (!(s.link_gbits > 0)) s.link_gbits = 80;
  if (!(s.tflops > 0)) s.tflops = 1;
  return s;
}

clade_status clade__speeds_check(const clade__speeds *s, const char *what) {
  const struct {
    const char *name;
    double value;
  } rows[] = {{"link_us", s->link_us}, {"link_gbits", s->link_gbits}, {"tflops", s->tflops}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if (!(rows[i].value >= 0 && isfinite(rows[i].value)))
      return CLADE_FAIL(INVALID, "%s: .%s is %g; expected a positive number", what, rows[i].name, rows[i].value);
  return CLADE_OK;
}

double clade__speeds_message(const clade__speeds *s) { return (s->link_us + CLADE__COMM_POLL_US / 2.0) * 1e-6; }

double clade__speeds_byte(const clade__speeds *s) { return 8e-9 / s->link_gbits; }
