/* Funcs: graphs compiled for devices and specialized for shapes, immutable and shared. Also the variables of a func. */
#ifndef CLADE_FUNC_H
#define CLADE_FUNC_H

#include <clade/graph.h>
#include <clade/tensor.h>

CLADE_BEGIN_DECLS

/* A compiled graph, and the contents of variables. Both are reference-counted. */
typedef struct clade_func clade_func;
typedef struct clade_vars clade_vars;

/* ---- compiling ---- */
/* Options of clade_compile. */
typedef struct clade_compile_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_compile_opt));
  clade_func **out CLADE_UNSET;             /* the new func */
  int n_devices CLADE_UNSET;                /* number of further devices, for clade_graph_place */
  clade_device *const *devices CLADE_UNSET; /* these devices; devices[0] has index 1 */
  /* A device with a compiler, for nodes of a device whose programs come from a bundle: nodes that no kernel of the
   * bundle computes, and nodes that are cheaper on the fallback device (docs/fpga.md). May be one of the other devices.
   * Unset: there is none. */
  clade_device *fallback CLADE_UNSET;
  /* Forces nodes, by name, or all other nodes of an op to one of the two devices: "softmax=fallback,mine=home". "home"
   * is the device that a node was built for. */
  const char *place CLADE_UNSET;
  bool no_fusion CLADE_UNSET; /* do not fuse elementwise nodes */
  /* Forces implementations: "gemm=ref,softmax=ref". An implementation that refuses a node is an error.
   * "conv2d=direct/1" forces alternative 1 in layouts (clade_impl.alternatives) as well. */
  const char *prefer CLADE_UNSET;
  /* The result of clade_func_choices: its implementations and configurations are used wherever they still apply,
   * whatever was tuned since. */
  const char *choices CLADE_UNSET;
  bool untuned CLADE_UNSET; /* ignore tuning records: default configurations only */
  /* Use only implementations that keep the error bound of their op: no convolution by Winograd's algorithm or Fourier
   * transforms (docs/layouts.md). CLADE_STRICT=1 in the environment sets this option for every func. */
  bool strict CLADE_UNSET;
  /* Mixed precision (docs/mixed-precision.md): CLADE_BF16 or CLADE_F16 for convolutions, products and the ops that pass
   * on their results. Sums, losses, statistics, updates, inputs, outputs and variables stay f32. Unset or CLADE_F32:
   * types are those of the graph. */
  clade_dtype precision CLADE_UNSET;
  const char *types CLADE_UNSET; /* exceptions, by node, layer, function or op: "gemm=f32,fc3=bf16" */
  /* The result of clade_quantization_text: the layers that it lists compute with 8-bit integers (docs/quantization.md).
   * The graph is the one for f32. The func has variables of its own in place of the layers' variables. */
  const char *quantization CLADE_UNSET;
  /* With .quantization: the func has the layers' f32 variables and the ranges of their inputs, as quantization-aware
   * training does, and derives the 8-bit integers in each execution. The results are the same. */
  bool simulate CLADE_UNSET;
} clade_compile_opt;

/* Compiles a graph: clade_compile(graph, device, &func [, .option = …]). `device` has index 0. A graph without symbols
 * is specialized at once: its memory is planned and its kernels are compiled. */
#define clade_compile(graph, device, ...) \
  clade_compile_(graph, device, CLADE_OPT(clade_compile_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_compile_(clade_graph *graph, clade_device *device, const clade_compile_opt *opt);

/* The size of a symbol. */
typedef struct clade_dim_value {
  const char *name; /* name of the symbol */
  int64_t value;    /* its size */
} clade_dim_value;

/* Specializes a func for given sizes of all symbols. The func caches the result, which the caller releases.
 *
 *     clade_func_specialize(func, CLADE_DIMS({"batch", 64}), &s64); */
CLADE_API clade_status clade_func_specialize(clade_func *func, int n, const clade_dim_value *dims, clade_func **out);
#define CLADE_DIMS(...) CLADE_LIST(clade_dim_value, __VA_ARGS__)

/* Adds and drops a reference; NULL may be released. */
CLADE_API clade_func *clade_func_retain(clade_func *func);
CLADE_API void clade_func_release(clade_func *func);

/* ---- inspecting a specialized func ---- */
/* Describes the plan as a text: the implementation of each node, and which implementations refused and why. The brief
 * one leaves out refusals. Both are freed by clade_text_free. */
CLADE_API clade_status clade_func_explain(const clade_func *func, char **out);
CLADE_API clade_status clade_func_explain_brief(const clade_func *func, char **out);
/* Lists the steps and the location of each operand for tools, one per line (docs/architecture.md). */
CLADE_API clade_status clade_func_steps(const clade_func *func, char **out);

/* The implementation that was chosen for a node. Fused nodes are one. Texts live as long as the func. */
typedef struct clade_impl_info {
  size_t size;
  const char *node, *op, *impl; /* the node's name, "" without one; its op; the implementation */
  int device;                   /* index of the device */
  const char *why;              /* "cheapest" (by estimate), "asked for", "measured" (tuning record) or "pinned" */
} clade_impl_info;
/* Counts the nodes with an implementation, and describes one by its index. The caller sets info->size. */
CLADE_API clade_status clade_func_impl_count(const clade_func *func, int *count);
CLADE_API clade_status clade_func_impl(const clade_func *func, int index, clade_impl_info *info);

/* Counts the copies per execution from one device to another, and their bytes. Devices are indexed as in clade_compile;
 * a fallback device that is none of them comes last. */
CLADE_API clade_status clade_func_crossing(const clade_func *func, int from, int to, int *copies, uint64_t *bytes);

/* Stores the chosen implementations and configurations as a text for clade_compile(.choices), freed by
 * clade_text_free. */
CLADE_API clade_status clade_func_choices(const clade_func *func, char **out);

/* The size of a func. */
typedef struct clade_func_info {
  size_t size;
  int steps, segments, inputs, outputs, variables; /* numbers of each; segments lie between host steps */
  uint64_t arena_bytes;                            /* planned memory of one run, on all devices */
  uint64_t live_peak_bytes;                        /* largest sum of live values, a lower bound of any plan */
  bool writes;                                     /* assigns variables */
  double compile_seconds;                          /* from graph to plan, kernels included */
} clade_func_info;
/* Describes the func. The caller sets info->size. */
CLADE_API clade_status clade_func_get_info(const clade_func *func, clade_func_info *info);

/* An input, an output or a variable of a func. */
typedef struct clade_port_info {
  size_t size;
  const char *name; /* the name; lives as long as the func */
  clade_type type;  /* element type, layout and shape */
  bool parameter;   /* a variable made by clade_parameter */
} clade_port_info;
/* Describes an input or an output by its index. The caller sets info->size. */
CLADE_API clade_status clade_func_input(const clade_func *func, int index, clade_port_info *info);
CLADE_API clade_status clade_func_output(const clade_func *func, int index, clade_port_info *info);

/* ---- variables ---- */
/* Makes all variables of the func's graph, filled with their initial values. Funcs whose variables agree in names and
 * types can share them. */
CLADE_API clade_status clade_vars_new(const clade_func *func, uint64_t seed, clade_vars **out);
/* Adds and drops a reference; NULL may be released. */
CLADE_API clade_vars *clade_vars_retain(clade_vars *vars);
CLADE_API void clade_vars_release(clade_vars *vars);
/* Counts the variables, and describes one by its index. The caller sets info->size. */
CLADE_API int clade_vars_count(const clade_vars *vars);
CLADE_API clade_status clade_vars_describe(const clade_vars *vars, int index, clade_port_info *info);
/* Copies a variable from or to host memory, and waits. `bytes` must be the variable's size. CLADE_BUSY if executions of
 * a run that assigns the variables are under way. */
CLADE_API clade_status clade_vars_set(clade_vars *vars, const char *name, const void *src, size_t bytes);
CLADE_API clade_status clade_vars_get(const clade_vars *vars, const char *name, void *dst, size_t bytes);
/* The part of a variable that this rank holds (docs/parallel.md). The variable's type is that of the part. */
typedef struct clade_part {
  size_t size;
  bool is_part;      /* false: the variable is whole */
  int axis;          /* the axis that is split */
  int64_t begin;     /* position of the part along the axis */
  clade_shape whole; /* shape of the whole variable */
} clade_part;
/* Describes the part. The caller sets out->size. */
CLADE_API clade_status clade_vars_part(const clade_vars *vars, const char *name, clade_part *out);
/* Copies all variables as they are now, into memory of their own. */
CLADE_API clade_status clade_vars_snapshot(const clade_vars *vars, clade_vars **out);

CLADE_END_DECLS
#endif
