/* clade infer: its two kinds of work, on a demonstration and on files. */
#ifndef CLADE_CLI_INFER_H
#define CLADE_CLI_INFER_H

#include "cli/cli.h"

typedef struct infer_job {
  cli_args args;
  const char *fallback;                         /* a spec; NULL: none */
  const char *place;                            /* "NODE=fallback,…" or NULL */
  clade_dtype precision;                        /* unset: f32 */
  const char *types;                            /* "gemm=f32,…" or NULL */
  const char *demo, *trace;                     /* of the demonstration */
  const char *weights, *model, *input, *output; /* of files */
  int64_t batch, seed, classes;
  bool explain, explain_all;
  double begun; /* seconds on the monotonic clock */
} infer_job;

/* The devices that were asked for, to be released; *fallback is NULL where there is none. */
clade_status infer_devices(const infer_job *job, clade_device **device, clade_device **fallback);
clade_status infer_explain(const infer_job *job, const clade_func *func);
clade_status infer_digest(const void *data, size_t bytes, char text[65]); /* SHA-256 */
json_t *infer_device_json(clade_device *device);
/* Which implementation each node got and where, and what crosses between the devices; releases the document and returns
 * NULL where that fails. */
json_t *infer_add_func(json_t *document, const clade_func *func, clade_device *fallback);

/* Exit statuses. */
int infer_demo(const infer_job *job);
int infer_files(const infer_job *job);

#endif
