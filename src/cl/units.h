/* Matrix units and their validation (units.c, unit_probes.c), for this module, program/units.c and the separate
 * probe process (src/probe). */
#ifndef CLADE_CL_UNITS_H
#define CLADE_CL_UNITS_H

#include "cl/cl.h"

/* For tests; set before the first query. Imitated: a missing unit counts as used, and kernels emulate it; the reason
 * is kept. Assumed: a mask of 1 << clade_unit, whose hardware is not looked for and reported. */
extern bool clade__units_imitated;
extern unsigned clade__units_assumed;

/* A matrix unit of a device class. The probe's kernel `clade_unit` in `source` runs one work-group of `items`. It
 * reads the words of `in`; its output must equal the result of `want`. */
enum { CLADE__UNIT_WORDS = 2048 };
struct clade__facts; /* properties of a device (internal.h) */
typedef struct clade__unit_row {
  const char *name;
  clade_device_class on;
  /* false: missing, or disabled by the user */
  bool (*there)(const struct clade__facts *facts, char *why, size_t bytes);
  /* Requests permission from the operating system, which changes the process; false: refused. NULL: none is needed. */
  bool (*permit)(char *why, size_t bytes);
  uint32_t lanes; /* f32 vector width that the compiler must use */
  size_t items;
  bool floats; /* words are pairs of bf16, accumulators f32 */
  int n_out;
  const char *source;
  void (*want)(const uint32_t *in, uint32_t *out);
} clade__unit_row;
extern const clade__unit_row clade__unit_rows[CLADE_UNITS];
/* unit_facts.c: whether the processor or device has a unit; if not, `why` gets the reason. */
bool clade__has_vnni(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__has_avx512_bf16(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__has_amx_int8(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__has_amx_bf16(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__has_ptx(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__has_ptx_f8(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__has_wgmma(const struct clade__facts *facts, char *why, size_t bytes);
bool clade__permit_amx(char *why, size_t bytes); /* asks Linux for AMX's register state */
/* The CPU instructions by which workers of a persistent kernel wait. Probed like a unit; the text defines
 * CLADE_PAUSE and CLADE_YIELD. */
extern const clade__unit_row clade__assembly_row;
extern const char clade__assembly_defines[];
clade__hash clade__unit_hash(const clade__unit_row *row); /* of the probe in this version */

typedef enum clade__unit_answer {
  CLADE__UNIT_NO,
  CLADE__UNIT_YES,
  CLADE__UNIT_UNKNOWN /* not usable now: out of memory, or the operating system refused */
} clade__unit_answer;
/* Whether the unit computes correctly on the device; if not YES, `why` has the reason. */
typedef clade__unit_answer clade__unit_prober(clade_device *device, const clade__unit_row *row, char *why,
                                              size_t bytes);
/* Probes in this process, which keeps the permission and dies if the compiler aborts. */
clade__unit_answer clade__unit_probe(clade_device *device, const clade__unit_row *row, char *why, size_t bytes);
/* Requests the permission only, after another process has probed. */
clade__unit_answer clade__unit_permit(const clade__unit_row *row, char *why, size_t bytes);

/* Checks the hardware, then calls `prober`. */
bool clade__unit_pass(clade_device *device, const clade__unit_row *row, clade__unit_prober *prober, char *why,
                      size_t bytes);
/* Probes all units of the device once; clade_device_info reports the results from then on. */
clade_status clade__device_ask_units(clade_device *device, clade__unit_prober *prober);
clade_status clade__units_name(clade_device_info *info); /* marks all units as not yet probed */
/* Whether the compiler is known to accept inline assembly: of unit probes, or of persistent kernels alone. */
bool clade__assembly_tried(const clade_device *device, bool units);
/* Whether the compiler is known to abort on the assembly of persistent kernels, so that no probe is made. */
bool clade__assembly_aborts(const clade_device *device);

#endif
