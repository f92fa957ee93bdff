/* clade infer: shared by its two modes, the demonstration and inference on files. */
#ifndef CLADE_CLI_INFER_H
#define CLADE_CLI_INFER_H

#include "cli/cli.h"

typedef struct infer_job {
  cli_args args;
  const char *fallback;                         /* device spec; NULL: none */
  const char *place;                            /* "NODE=fallback,…"; NULL: none */
  clade_dtype precision;                        /* unset: f32 */
  const char *types;                            /* "gemm=f32,…"; NULL: none */
  const char *demo, *trace;                     /* of --demo */
  const char *weights, *model, *input, *output; /* for files */
  int64_t batch, seed, classes;
  bool explain, explain_all;
  double begun; /* start of the command, in monotonic seconds */
} infer_job;

/* Loads a file of weights. If it does not fit, the error also says where the shapes of a smaller model are. */
clade_status infer_load(clade_vars *vars, const char *file);
/* Opens the requested devices, which the caller releases; *fallback is NULL if there is none. */
clade_status infer_devices(const infer_job *job, clade_device **device, clade_device **fallback);
clade_status infer_explain(const infer_job *job, const clade_func *func);
clade_status infer_digest(const void *data, size_t bytes, char text[65]); /* SHA-256 */
json_t *infer_device_json(clade_device *device);
/* Adds the implementation and device of each node, and the copies between the devices. On failure releases the
 * document and returns NULL. */
json_t *infer_add_func(json_t *document, const clade_func *func, clade_device *fallback);

int infer_demo(const infer_job *job);
int infer_files(const infer_job *job);

#endif
