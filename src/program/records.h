/* Tuning records: the implementation and parameters measured for a problem. Independent of files and OpenCL;
 * docs/tuning.md documents the format. */
#ifndef CLADE_RECORDS_H
#define CLADE_RECORDS_H

#include <clade/op.h>

#include "base/profile.h"

/* At most one per problem and implementation, or alternative in layouts. */
typedef struct clade__record {
  const char *op, *problem, *impl; /* problem "*": the implementation's default configuration */
  clade__hash kernel;              /* hash of the kernel; zero: any */
  int n_params;
  const char *param[CLADE_MAX_PARAMS];
  int32_t value[CLADE_MAX_PARAMS];
  double seconds, default_seconds; /* of the configuration and of the default; 0: unknown */
  bool full;                       /* all candidates were timed */
  size_t next;                     /* 1 + index of the next record of the same problem; 0: none */
} clade__record;

/* Device properties that determine the similarity of two devices. */
typedef struct clade__tuned_device {
  clade__hash key; /* zero: no particular device */
  const char *name, *driver;
  clade_device_class device_class;
  uint32_t compute_units, vector_f32, fma_units; /* 0: unknown */
  uint64_t l1, l2, cache;
  clade__profile profile; /* measured speeds, if known */
} clade__tuned_device;

/* The parameter that numbers an implementation's alternatives in layouts (clade_impl.alternatives), and its value in a
 * record; 0 without it. */
#define CLADE__LAYOUTS_PARAM "layouts"
int32_t clade__record_alternative(const clade__record *r);
/* Sets the configuration to one of the implementation's space; NULL: it has no parameters. */
void clade__record_config(clade__record *r, const clade_impl *impl, const int32_t *config);

/* Records of one device. A shared set is immutable. */
typedef struct clade__records {
  clade__ref ref;
  clade__arena arena;
  clade__tuned_device device;
  clade__record *at;
  size_t n, capacity;
  clade__map by_problem;
} clade__records;
clade_status clade__records_new(const clade__tuned_device *device, clade__records **out);
clade__records *clade__records_retain(clade__records *records); /* accepts NULL */
void clade__records_release(clade__records *records);
/* Copies the record after validating it like one from a file. Replaces the record of the same op, problem,
 * implementation and alternative. */
clade_status clade__records_put(clade__records *records, const clade__record *record);
/* `impl` "": the first of any implementation. NULL if there is none. */
const clade__record *clade__records_find(const clade__records *records, const char *op, const char *problem,
                                         const char *impl);
/* The record of the same op, problem, implementation and alternative as `r`. */
const clade__record *clade__records_same(const clade__records *records, const clade__record *r);
/* Of the same problem. */
const clade__record *clade__records_next(const clade__records *records, const clade__record *r);
/* The union of `from` and `by`; problems present in `by` take all their records from there. `from` may be NULL. */
clade_status clade__records_renewed(const clade__records *from, const clade__records *by, clade__records **out);

/* The sets of a file. */
typedef struct clade__record_sets {
  clade__records **at;
  size_t n, capacity;
} clade__record_sets;
enum { CLADE__RECORDS_IMPLS = 64 }; /* limit per problem */
enum { CLADE__RECORDS_BYTES = 16 << 20, CLADE__RECORDS_MOST = 65536, CLADE__RECORDS_DEVICES = 256 };
/* CLADE_CORRUPT if the document as a whole is invalid. *bad counts invalid records, which are skipped. */
clade_status clade__records_parse(const void *text, size_t bytes, clade__record_sets *out, size_t *bad);
clade_status clade__records_print(const clade__record_sets *sets, char **text);
clade_status clade__record_sets_add(clade__record_sets *sets, clade__records *records); /* takes over the reference */
void clade__record_sets_free(clade__record_sets *sets);

/* 0 for equal devices; infinite if the records of one do not apply to the other. */
double clade__tuned_distance(const clade__tuned_device *a, const clade__tuned_device *b);

/* The record sets that apply to a device, in order of precedence. Immutable. */
enum { CLADE__LAYERS = 32 };
typedef struct clade__tuning {
  clade__ref ref;
  clade__profile profile; /* of the device; if unknown, costs use the class defaults */
  int n;
  clade__records *layer[CLADE__LAYERS];
} clade__tuning;
void clade__tuning_release(clade__tuning *tuning); /* accepts NULL */

#endif
