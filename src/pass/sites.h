/* Data for placement with a fallback device: the possible places of each node and their costs. */
#ifndef CLADE_SITES_H
#define CLADE_SITES_H

#include "pass/pass.h"

enum {
  CLADE__HOME = 1,
  CLADE__AWAY = 2
}; /* sets of places: the device that the node was built for, the fallback device */

typedef struct clade__site { /* of a node */
  unsigned may;              /* possible places; a single one is decided */
  bool kept;                 /* had a choice, so its place is recorded in the choices */
  double cost[2];            /* by place */
  int program;               /* that it needs at home, if there are several */
} clade__site;

typedef struct clade__sites {
  const clade__pass_ctx *ctx;
  const clade_graph *g;
  clade__site *at;    /* by node */
  clade__link *links; /* [devices]: to the fallback device */
} clade__sites;

/* Minimizes compute, transfers and program changes; sets device[node]. Exact unless a device has several programs. */
clade_status clade__sites_place(const clade__sites *sites, int *device);

#endif
