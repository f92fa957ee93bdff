/* Contestants that run in a Python process. */
#ifndef CLADE_CLI_BENCH_PYTHON_H
#define CLADE_CLI_BENCH_PYTHON_H

#include "cli/bench/bench.h"

enum { BENCH_ARGUMENTS = 20 };
typedef struct bench_script {
  const char *file, *text;
  struct {
    const char *name;
    const void *data;
    size_t bytes;
  } files[4];                         /* files beside the script */
  const clade_vars *vars;             /* saved as weights.safetensors; NULL: none */
  char argument[BENCH_ARGUMENTS][56]; /* after the arguments of contestant.py; empty: end */
  size_t results;                     /* number of floats of a result */
} bench_script;
void bench_script_file(bench_script *script, const char *name, const void *data, size_t bytes);
void bench_script_say(bench_script *script, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets the script to works.py, with a work as shapes.c describes it. */
void bench_script_work(bench_script *script, const char *group, const char *work, clade_dtype dtype, int64_t chain,
                       const char *pass, const char *shape);
/* Starts a contestant whose name begins with "pytorch" or "onnxruntime". Returns NULL, or the reason of the failure. */
const char *bench_python(const bench_job *job, const char *peer, const bench_script *script, bench_side *side);

extern const char bench_contestant_script[], bench_works_script[],
    bench_model_script[]; /* the .py files of src/cli/bench */

#endif
