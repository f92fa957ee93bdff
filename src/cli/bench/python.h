/* Contestants that are a process of Python. */
#ifndef CLADE_CLI_BENCH_PYTHON_H
#define CLADE_CLI_BENCH_PYTHON_H

#include "cli/bench/bench.h"

enum { BENCH_ARGUMENTS = 20 };
typedef struct bench_script {
  const char *file, *text; /* its name and itself */
  struct {
    const char *name; /* NULL after the last */
    const void *data;
    size_t bytes;
  } files[4];                         /* that it finds beside it */
  const clade_vars *vars;             /* as weights.safetensors; NULL: none */
  char argument[BENCH_ARGUMENTS][56]; /* behind those of contestant.py; empty after the last */
  size_t results;                     /* floats of a result */
} bench_script;
/* Adds an argument. */
void bench_script_say(bench_script *script, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes it works.py, with a work as shapes.c describes it. */
void bench_script_work(bench_script *script, const char *group, const char *work, clade_dtype dtype, int64_t chain,
                       const char *pass, const char *shape);
/* NULL, or why a peer whose name begins with "pytorch" or "onnxruntime" cannot take part. */
const char *bench_python(const bench_job *job, const char *peer, const bench_script *script, bench_side *side);

extern const char bench_contestant_script[], bench_works_script[], bench_model_script[]; /* src/cli/bench: *.py */

#endif
