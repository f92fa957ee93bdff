/* The matrix units that devices may have, and the gate before them (units.c, unit_probes.c): for this room, for who
 * asks (program/units.c) and for the program that probes in a process of its own (src/probe). */
#ifndef CLADE_CL_UNITS_H
#define CLADE_CL_UNITS_H

#include "cl/cl.h"

/* For tests, set before anybody asks. Imitated: a unit that is not there counts as used, with its reason beside it, and
 * kernels imitate it. Assumed: the host is not asked, and has every unit of the device's class. */
extern bool clade__units_imitated, clade__units_assumed;

/* A unit that devices of a class may have. The probe's kernel is `clade_unit` of `source`: a group of `items` reads the
 * words of `in` and writes those of `out`, which must be what `want` makes of the same. */
enum { CLADE__UNIT_WORDS = 1024 };
struct clade__facts; /* what is known of a device */
typedef struct clade__unit_row {
  const char *name;
  clade_device_class on;
  /* false: it is not there, or the user forbids it */
  bool (*there)(const struct clade__facts *facts, char *why, size_t bytes);
  /* Asks the operating system for leave to use it, which changes the process; false: refused. NULL: none is needed. */
  bool (*permit)(char *why, size_t bytes);
  uint32_t lanes; /* floats of the vectors that kernels must be compiled for */
  size_t items;
  bool floats; /* the words are pairs of bf16, the accumulators floats */
  int n_out;
  const char *source;
  void (*want)(const uint32_t *in, uint32_t *out);
} clade__unit_row;
extern const clade__unit_row clade__unit_rows[CLADE_UNITS];
/* No unit, but probed as one: the processor's instructions by which a persistent kernel's workers wait, as the text
 * that defines CLADE_PAUSE and CLADE_YIELD. */
extern const clade__unit_row clade__assembly_row;
extern const char clade__assembly_defines[];
clade__hash clade__unit_hash(const clade__unit_row *row); /* of its probe in this version */

typedef enum clade__unit_answer {
  CLADE__UNIT_NO,
  CLADE__UNIT_YES,
  CLADE__UNIT_UNKNOWN /* no, but not for good: memory was short, or the operating system in the way */
} clade__unit_answer;
/* Whether the unit computes right on the device; unless YES, `why` says why not. */
typedef clade__unit_answer clade__unit_prober(clade_device *device, const clade__unit_row *row, char *why,
                                              size_t bytes);
/* In this process, which has the permission afterwards, and ends where the implementation's compiler does. */
clade__unit_answer clade__unit_probe(clade_device *device, const clade__unit_row *row, char *why, size_t bytes);
/* Asks for the permission alone, where another process has probed. */
clade__unit_answer clade__unit_permit(const clade__unit_row *row, char *why, size_t bytes);

/* The gate: first what host and device have, then `prober`. */
bool clade__unit_pass(clade_device *device, const clade__unit_row *row, clade__unit_prober *prober, char *why,
                      size_t bytes);
/* All units of the device, once; clade_device_info tells of them from then on. */
clade_status clade__device_ask_units(clade_device *device, clade__unit_prober *prober);
clade_status clade__units_name(clade_device_info *info); /* before anybody asked */
/* Whether the implementation's compiler was seen to take inline assembly: of units' probes, or of persistent kernels
 * alone. */
bool clade__assembly_tried(const clade_device *device, bool units);
/* Whether it was seen to end the process by that of persistent kernels: nobody is asked then. */
bool clade__assembly_aborts(const clade_device *device);

#endif
