/* From graph to func: compiled for devices, specialized for shapes, immutable and shared. And the variables it works
 * on. */
#ifndef CLADE_FUNC_H
#define CLADE_FUNC_H

#include <clade/graph.h>
#include <clade/tensor.h>

CLADE_BEGIN_DECLS

typedef struct clade_func clade_func; /* counted */
typedef struct clade_vars clade_vars; /* counted */

typedef struct clade_compile_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_compile_opt));
  clade_func **out CLADE_UNSET;
  int n_devices CLADE_UNSET; /* devices of clade_graph_place beyond the first; 0: one device */
  clade_device *const *devices CLADE_UNSET;
  /* A device that compiles: what is built for devices whose programs come from a bundle goes there where no kernel of
   * the bundle computes it, or where that is cheaper (docs/fpga.md). It may be one of the others. Unset: there is none.
   */
  clade_device *fallback CLADE_UNSET;
  /* Forces nodes by their names, or all that have none of these by their op's: "softmax=fallback,mine=home". Home is
   * the device that a node was built for. */
  const char *place CLADE_UNSET;
  bool no_fusion CLADE_UNSET;
  const char *prefer CLADE_UNSET; /* force implementations: "gemm=ref,softmax=ref"; an op that cannot is an error */
  /* What clade_func_choices gave: its implementations and parameters are taken again wherever they hold, whatever was
   * tuned since. */
  const char *choices CLADE_UNSET;
  bool untuned CLADE_UNSET; /* without tuning records: what each implementation starts from */
  /* Only implementations that keep the bound of error that their op states: no convolution by Winograd's algorithm or
   * Fourier transforms (docs/layouts.md). The environment's CLADE_STRICT=1 asks it for every func. */
  bool strict CLADE_UNSET;
  /* Mixed precision (docs/mixed-precision.md): CLADE_BF16 or CLADE_F16 for convolutions, products and what carries
   * their results; sums, losses, statistics and updates stay f32, as do inputs, outputs and variables. Unset or
   * CLADE_F32: everything is as it was built. */
  clade_dtype precision CLADE_UNSET;
  const char *types CLADE_UNSET; /* other types for some: "gemm=f32,fc3=bf16", by node, layer, function or op */
  /* What clade_quantization_text gave: the layers that it lists compute with numbers of 8 bits (docs/quantization.md).
   * The graph is as it was built for f32; the func has variables of its own in place of the layers'. */
  const char *quantization CLADE_UNSET;
  /* The func has the layers' variables in f32, and ranges of their inputs, as a training with .quantization makes them,
   * and computes the numbers of 8 bits of them in each execution: to the same results. */
  bool simulate CLADE_UNSET;
} clade_compile_opt;

/* clade_compile(graph, device, &func [, .option = …]). `device` is number 0; with n_devices, devices[0] is number 1.
 * A graph without symbols is specialized (planned, its kernels ready) on return. */
#define clade_compile(graph, device, ...) \
  clade_compile_(graph, device, CLADE_OPT(clade_compile_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_compile_(clade_graph *graph, clade_device *device, const clade_compile_opt *opt);

typedef struct clade_dim_value {
  const char *name;
  int64_t value;
} clade_dim_value;

/* Plans for given sizes of all symbols; cached in the func. The result is retained for the caller.
 *     clade_func_specialize(func, CLADE_DIMS({"batch", 64}), &s64); */
CLADE_API clade_status clade_func_specialize(clade_func *func, int n, const clade_dim_value *dims, clade_func **out);
#define CLADE_DIMS(...) CLADE_LIST(clade_dim_value, __VA_ARGS__)

CLADE_API clade_func *clade_func_retain(clade_func *func);
CLADE_API void clade_func_release(clade_func *func); /* NULL is fine */

/* For each node: implementation, who refused and why, the plan: to be given to clade_text_free. */
CLADE_API clade_status clade_func_explain(const clade_func *func, char **out);
CLADE_API clade_status clade_func_explain_brief(const clade_func *func, char **out); /* without who refused */
/* The steps and where each operand lies, one per line, for tools; format in docs/architecture.md. */
CLADE_API clade_status clade_func_steps(const clade_func *func, char **out);

/* The nodes that were given an implementation, in their order; those that fusion joined are one. Of a specialized func;
 * texts live as long as it does. */
typedef struct clade_impl_info {
  size_t size;
  const char *node, *op, *impl; /* node: its name, "" where it has none */
  int device;
  const char *why; /* "cheapest", by its own estimate; "asked for"; "measured", by a tuning record; "pinned" */
} clade_impl_info;
CLADE_API clade_status clade_func_impl_count(const clade_func *func, int *count);
CLADE_API clade_status clade_func_impl(const clade_func *func, int index, clade_impl_info *info);

/* The copies that each execution of a specialized func makes from a device to another one, and their bytes. Devices are
 * numbered as in clade_compile; the fallback device, where it is none of the others, comes last. */
CLADE_API clade_status clade_func_crossing(const clade_func *func, int from, int to, int *copies, uint64_t *bytes);

/* The choices of a specialized func, as a text for clade_compile(.choices); to be given to clade_text_free. */
CLADE_API clade_status clade_func_choices(const clade_func *func, char **out);

typedef struct clade_func_info {
  size_t size;
  int steps, segments, inputs, outputs, variables;
  uint64_t arena_bytes;     /* of one run, all devices */
  uint64_t live_peak_bytes; /* the largest sum of live values: no plan can be smaller */
  bool writes;              /* assigns variables */
  double compile_seconds;   /* graph to plan, kernels included */
} clade_func_info;
CLADE_API clade_status clade_func_get_info(const clade_func *func, clade_func_info *info);

typedef struct clade_port_info {
  size_t size;
  const char *name; /* the func's */
  clade_type type;
  bool parameter; /* a variable made by clade_parameter */
} clade_port_info;
CLADE_API clade_status clade_func_input(const clade_func *func, int index, clade_port_info *info);
CLADE_API clade_status clade_func_output(const clade_func *func, int index, clade_port_info *info);

/* All variables of the func's graph, filled by their initial values. Funcs whose variables have the same names and
 * types share one clade_vars. */
CLADE_API clade_status clade_vars_new(const clade_func *func, uint64_t seed, clade_vars **out);
CLADE_API clade_vars *clade_vars_retain(clade_vars *vars);
CLADE_API void clade_vars_release(clade_vars *vars); /* NULL is fine */
CLADE_API int clade_vars_count(const clade_vars *vars);
CLADE_API clade_status clade_vars_describe(const clade_vars *vars, int index, clade_port_info *info);
/* Both wait; `bytes` must be the variable's. While a run that assigns holds the variables: CLADE_BUSY unless idle. */
CLADE_API clade_status clade_vars_set(clade_vars *vars, const char *name, const void *src, size_t bytes);
CLADE_API clade_status clade_vars_get(const clade_vars *vars, const char *name, void *dst, size_t bytes);
/* Where ranks have parts of a variable (docs/parallel.md), of which this is one: its type is that of the part. */
typedef struct clade_part {
  size_t size;
  bool is_part; /* false: the variable is whole */
  int axis;
  int64_t begin; /* of the part, along the axis of `whole` */
  clade_shape whole;
} clade_part;
CLADE_API clade_status clade_vars_part(const clade_vars *vars, const char *name, clade_part *out);
/* A copy as of now, with its own memory. */
CLADE_API clade_status clade_vars_snapshot(const clade_vars *vars, clade_vars **out);

CLADE_END_DECLS
#endif
