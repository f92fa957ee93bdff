/* Tuning records as data: which implementation a problem was given, with which parameters. Knows no files and no
 * OpenCL; docs/tuning.md states the format. */
#ifndef CLADE_RECORDS_H
#define CLADE_RECORDS_H

#include <clade/op.h>

#include "base/profile.h"

/* A problem has one of each implementation that was measured. */
typedef struct clade__record {
  const char *op, *problem, *impl; /* problem "*": where the implementation starts from */
  clade__hash kernel;              /* zero: of any */
  int n_params;
  const char *param[CLADE_MAX_PARAMS];
  int32_t value[CLADE_MAX_PARAMS];
  double seconds, default_seconds; /* of the configuration, and of what would have been taken without it; 0: not told */
  bool full;                       /* every candidate was timed */
  size_t next;                     /* of the set: 1 + the next one of the same problem; 0: none */
} clade__record;

/* What tells how near two devices are. */
typedef struct clade__tuned_device {
  clade__hash key; /* zero: of no one device */
  const char *name, *driver;
  clade_device_class device_class;
  uint32_t compute_units, vector_f32, fma_units; /* 0: not told */
  uint64_t l1, l2, cache;
  clade__profile profile; /* what it was measured to reach, if it was */
} clade__tuned_device;

/* Makes it one of this row; NULL: it has none. */
void clade__record_config(clade__record *r, const clade_impl *impl, const int32_t *config);

/* Those of one device. Whoever shares a set does not change it any more. */
typedef struct clade__records {
  clade__ref ref;
  clade__arena arena;
  clade__tuned_device device;
  clade__record *at;
  size_t n, capacity;
  clade__map by_problem;
} clade__records;
clade_status clade__records_new(const clade__tuned_device *device, clade__records **out);
clade__records *clade__records_retain(clade__records *records); /* NULL is fine */
void clade__records_release(clade__records *records);
/* Copies it; one of the same op, problem and implementation is replaced. Checked as those of a file are. */
clade_status clade__records_put(clade__records *records, const clade__record *record);
/* "" for `impl`: the first of any. NULL: none. */
const clade__record *clade__records_find(const clade__records *records, const char *op, const char *problem,
                                         const char *impl);
const clade__record *clade__records_next(const clade__records *records, const clade__record *r); /* of its problem */
/* What `from` says, but of the problems that `by` knows only what that says. `from` may be NULL. */
clade_status clade__records_renewed(const clade__records *from, const clade__records *by, clade__records **out);

/* Sets as they stand in a file. */
typedef struct clade__record_sets {
  clade__records **at;
  size_t n, capacity;
} clade__record_sets;
enum { CLADE__RECORDS_IMPLS = 64 }; /* of a problem, at most */
enum { CLADE__RECORDS_BYTES = 16 << 20, CLADE__RECORDS_MOST = 65536, CLADE__RECORDS_DEVICES = 256 };
/* CLADE_CORRUPT: not what it should be, as a whole. *bad counts records that were left out. */
clade_status clade__records_parse(const void *text, size_t bytes, clade__record_sets *out, size_t *bad);
clade_status clade__records_print(const clade__record_sets *sets, char **text);
clade_status clade__record_sets_add(clade__record_sets *sets, clade__records *records); /* takes the reference over */
void clade__record_sets_free(clade__record_sets *sets);

/* How far apart: 0 for alike, and infinite where the records of one say nothing about the other. */
double clade__tuned_distance(const clade__tuned_device *a, const clade__tuned_device *b);

/* What a device goes by: sets, in the order in which they are asked. Immutable. */
enum { CLADE__LAYERS = 32 };
typedef struct clade__tuning {
  clade__ref ref;
  clade__profile profile; /* the device's own; not known: costs go by its class */
  int n;
  clade__records *layer[CLADE__LAYERS];
} clade__tuning;
void clade__tuning_release(clade__tuning *tuning); /* NULL is fine */

#endif
