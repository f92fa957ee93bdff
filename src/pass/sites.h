/* What placing beside a fallback device weighs: where each node can be, and what it takes there. */
#ifndef CLADE_SITES_H
#define CLADE_SITES_H

#include "pass/pass.h"

enum {
  CLADE__HOME = 1,
  CLADE__AWAY = 2
}; /* sets of places: the device that the node was built for, the fallback device */

typedef struct clade__site { /* of a node */
  unsigned may;              /* where it can be; one place: it is decided */
  bool kept;                 /* it had a choice: its place is told in choices */
  double cost[2];            /* there */
  int program;               /* that it needs at home, of several */
} clade__site;

typedef struct clade__sites {
  const clade__pass_ctx *ctx;
  const clade_graph *g;
  clade__site *at;    /* by node */
  clade__link *links; /* [devices]: to the fallback device */
} clade__sites;

/* The least sum: device[node]. What is computed, what crosses, and how often devices change their programs. Exact as
 * far as no device has several. */
clade_status clade__sites_place(const clade__sites *sites, int *device);

#endif
