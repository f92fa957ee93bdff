/* clade infer: its two kinds of work, on a demonstration and on files. */
#ifndef CLADE_CLI_INFER_H
#define CLADE_CLI_INFER_H

#include "cli/cli.h"

typedef struct infer_job {
  cli_args args;
  const char *demo, *trace;                     /* of the demonstration */
  const char *weights, *model, *input, *output; /* of files */
  int64_t batch, seed, classes;
  bool explain;
  double begun; /* seconds on the monotonic clock */
} infer_job;

double infer_now(void);
clade_status infer_explain(const infer_job *job, const clade_func *func);
clade_status infer_digest(const void *data, size_t bytes, char text[65]); /* SHA-256 */
json_t *infer_device_json(clade_device *device);
json_t *infer_impls_json(const clade_func *func);

/* Exit statuses. */
int infer_demo(const infer_job *job);
int infer_files(const infer_job *job);

#endif
