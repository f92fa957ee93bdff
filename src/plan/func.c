/* Funcs: compilation and specialization. */
#include <stdlib.h>

#include <clade/opencl.h>

#include "plan/plan.h"

clade_func *clade_func_retain(clade_func *func) {
  if (func) clade__ref_up(&func->ref);
  return func;
}

static void free_shape(clade_func *func) {
  for (size_t i = 0; i < func->n_steps; i++) {
    const clade__fstep *step = &func->steps[i];
    if (!step->prepared) continue;
    void (*release)(void *) = step->launch->library ? step->launch->library->release : step->launch->host->release;
    if (release) release(step->state);
  }
  for (size_t i = 0; func->constants && i < func->constant_slabs.count; i++) clade__buffer_release(func->constants[i]);
  clade__free(func->constants);
  clade__free(func->constant_slabs.at);
  clade__free(func->slabs.at);
  clade__free(func->steps);
  clade__free(func->programming);
  clade__free(func->cells);
  clade__free(func->cell_of);
  clade__free(func->packs);
  clade__free(func->output_cell);
  clade__free(func->requests);
  clade__free(func->request_device);
  clade__free(func->kernels);
  clade__free(func->persistent);
  clade__free(func->hosts);
  clade__free(func->interpreters);
  clade__free(func->apart);
  clade__arena_free(&func->arena);
}

void clade_func_release(clade_func *func) {
  if (!func || !clade__ref_down(&func->ref)) return;
  for (size_t i = 0; i < func->n_shaped; i++) clade_func_release(func->shaped_funcs[i]);
  clade__free(func->shaped_funcs);
  clade__map_free(&func->by_dims);
  free_shape(func);
  for (int i = 0; func->devices && i < func->n_devices; i++) clade_device_release(func->devices[i]);
  clade__free(func->devices);
  clade__free(func->prefer);
  clade__free(func->place);
  clade__free(func->casts);
  clade__records_release(func->pins);
  clade__records_release(func->placed);
  for (int i = 0; func->tuning && i < func->n_devices; i++) clade__tuning_release(func->tuning[i]);
  clade__free(func->tuning);
  clade_graph_release(func->graph);
  clade_graph_release(func->built);
  pthread_mutex_destroy(&func->lock);
  clade__free(func);
}

/* Creates an empty func that retains the graph. */
static clade_status func_new(clade_graph *graph, int n, clade_device *const *devices, const clade__how *how,
                             clade_func **out) {
  clade_func *func = clade__new(1, sizeof *func);
  if (!func) return CLADE_NO_MEMORY;
  clade__ref_init(&func->ref);
  pthread_mutex_init(&func->lock, NULL);
  func->graph = clade_graph_retain(graph);
  func->fallback = how->fallback;
  func->no_fusion = how->no_fusion;
  func->strict = how->strict;
  func->pins = clade__records_retain(how->pins);
  func->trusted = how->trusted;
  func->devices = clade__new((size_t)n, sizeof *func->devices);
  func->prefer = how->prefer ? clade__copy_text(how->prefer) : NULL;
  func->place = how->place ? clade__copy_text(how->place) : NULL;
  if (!func->devices || (how->prefer && !func->prefer) || (how->place && !func->place)) {
    clade_func_release(func);
    return CLADE_NO_MEMORY;
  }
  for (; func->n_devices < n; func->n_devices++)
    func->devices[func->n_devices] = clade_device_retain(devices[func->n_devices]);
  *out = func;
  return CLADE_OK;
}

/* Read once, so that all specializations use the same records. */
static clade_status take_tuning(clade_func *func, const clade_func *generic) {
  if (generic && !generic->tuning) return CLADE_OK;
  func->tuning = clade__new((size_t)func->n_devices, sizeof(clade__tuning *));
  if (!func->tuning) return CLADE_NO_MEMORY;
  for (int i = 0; i < func->n_devices; i++) {
    if (!generic)
      CLADE_TRY(clade__tuning_get(func->devices[i], &func->tuning[i]));
    else
      clade__ref_up(&(func->tuning[i] = generic->tuning[i])->ref);
  }
  return CLADE_OK;
}

typedef clade_status passes_fn(clade__pass_ctx *ctx);

static clade_status ask_device(const clade_func *func, int device, const clade_impl *impl, const clade_node *node) {
  clade_query q = {.size = sizeof q, .node = node, .device = clade__device_info(func->devices[device])};
  return impl->units(&q) ? clade_device_ask_units(func->devices[device]) : CLADE_OK;
}

static bool has_bytes(const clade_graph *g) {
  for (clade__id v = 1; v < g->n_values; v++)
    if (g->values[v].type.dtype == CLADE_I8) return true;
  return false;
}

/* Before implementations are checked: probes the matrix units that they need. If there are bytes, nodes of floats may
 * become nodes of bytes (pass/integers.c). */
static clade_status ask_units(const clade_func *func) {
  const clade_graph *g = func->graph;
  const bool bytes = has_bytes(g);
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *node = &g->nodes[id];
    if (node->device < 0 || node->device >= func->n_devices) continue; /* reported when nodes are placed */
    for (const clade_impl *const *impl = clade__impls(node->op); *impl; impl++) {
      if (!(*impl)->units) continue;
      clade__node_view(g, id, in, out, &view);
      for (int turn = 0; turn < 1 + bytes; turn++) {
        if (turn)
          for (int i = 0; i < view.n_in; i++) in[i].dtype = CLADE_I8;
        CLADE_TRY(ask_device(func, node->device, *impl, &view));
        if (func->fallback >= 0) CLADE_TRY(ask_device(func, func->fallback, *impl, &view));
      }
    }
  }
  return CLADE_OK;
}

void clade__func_speed(const clade_func *func, int device, clade__profile *out) {
  *out = (clade__profile){0};
  if (func->pins && !func->trusted)
    clade__profile_of(func->pins, func->devices[device], out);
  else if (func->tuning)
    *out = func->tuning[device]->profile;
}

clade_status clade__func_pass_ctx(const clade_func *func, clade_device_info **infos, clade__pass_ctx *ctx) {
  clade_device_info *all = clade__new((size_t)func->n_devices, sizeof *all);
  clade__profile profile;
  if (!all) return CLADE_NO_MEMORY;
  for (int i = 0; i < func->n_devices; i++) {
    all[i] = *clade__device_info(func->devices[i]);
    clade__func_speed(func, i, &profile);
    clade__profile_tell(&profile, &all[i]);
  }
  *infos = all;
  *ctx = (clade__pass_ctx){.graph = func->graph,
                           .n_devices = func->n_devices,
                           .devices = all,
                           .fallback = func->fallback,
                           .no_fusion = func->no_fusion,
                           .strict = func->strict,
                           .prefer = func->prefer,
                           .place = func->place,
                           .pins = func->pins,
                           .placed = func->placed,
                           .trusted = func->trusted,
                           .tuning = (const clade__tuning *const *)func->tuning};
  return CLADE_OK;
}

/* `how`: for the first passes, which see the built graph; NULL for later ones. */
static clade_status run_passes(clade_func *func, passes_fn *passes, const clade__how *how) {
  clade_device_info *infos;
  clade__pass_ctx ctx;
  for (int i = 0; i < func->n_devices; i++) CLADE_TRY(clade__store_bundle(func->devices[i]));
  CLADE_TRY(ask_units(func));
  CLADE_TRY(clade__func_pass_ctx(func, &infos, &ctx));
  if (how) ctx.precision = how->precision, ctx.types = how->types;
  if (how) ctx.quantization = how->quantization, ctx.simulate = how->simulate;
  clade_status status = passes(&ctx);
  func->graph = ctx.graph;
  if (ctx.casts) func->casts = ctx.casts;
  func->placed = ctx.placed;
  clade__free(infos);
  return status;
}

static clade_status shape(clade_func *func, bool kernels) {
  func->built = clade_graph_retain(func->graph);
  CLADE_TRY(run_passes(func, clade__passes_specific, NULL));
  func->guard = clade__plan_guard_bytes;
  CLADE_TRY(clade__lower(func));
  CLADE_TRY(clade__place_ports(func));
  CLADE_TRY(clade__memory_plan(func));
  if (kernels && !clade__plan_only) {
    CLADE_TRY(clade__prepare(func));
    CLADE_TRY(clade__constants_upload(func));
    CLADE_TRY(clade__packed_constants(func));
  }
  func->shaped = true;
  return CLADE_OK;
}

static bool has_symbols(const clade_graph *g) {
  for (clade__id v = 1; v < g->n_values; v++)
    if (!clade_shape_is_constant(&g->values[v].type.shape)) return true;
  return false;
}

static clade_status check_devices(int n, clade_device *const *devices, const char *function) {
  for (int i = 0; i < n; i++) {
    if (!devices[i]) return CLADE_FAIL(INVALID, "%s: device %d is NULL", function, i);
    CLADE_TRY(clade__device_check(devices[i], function));
  }
  return CLADE_OK;
}

clade_status clade__compile(clade_graph *graph, int n, clade_device *const *devices, const clade__how *how,
                            clade_func **out) {
  double start = clade__now();
  clade_func *func;
  clade_status status = check_devices(n, devices, "clade_compile");
  CLADE_TRY(status);
  status = clade_graph_status(graph);
  if (status != CLADE_OK) return clade__fail_again(status, clade_graph_message(graph));
  /* Builders do not run concurrently, but compilations may. */
  if (!__atomic_load_n(&graph->sealed, __ATOMIC_RELAXED)) __atomic_store_n(&graph->sealed, true, __ATOMIC_RELAXED);
  CLADE_TRY(func_new(graph, n, devices, how, &func));
  if (!how->untuned) CLADE_GOTO(take_tuning(func, NULL));
  CLADE_GOTO(run_passes(func, clade__passes_generic, how));
  if (!has_symbols(func->graph)) CLADE_GOTO(shape(func, how->kernels));
  func->seconds = clade__now() - start;
  *out = func;
  return CLADE_OK;
fail:
  clade_func_release(func);
  return status;
}

/* Merges the sets of a choices text, since choices by exact problem apply to any device. */
static clade_status read_choices(const char *text, clade__records **out) {
  clade__record_sets sets;
  size_t bad = 0;
  clade_status status = clade__records_parse(text, strlen(text), &sets, &bad);
  if (status != CLADE_OK) return clade__fail_in(status, "clade_compile: .choices");
  clade__tuned_device any = {0};
  status = clade__records_new(&any, out);
  for (size_t i = 0; i < sets.n && status == CLADE_OK; i++)
    for (size_t k = 0; k < sets.at[i]->n && status == CLADE_OK; k++)
      status = clade__records_put(*out, &sets.at[i]->at[k]);
  clade__record_sets_free(&sets);
  return status;
}

static clade_status compile_with(clade_graph *graph, int n, clade_device *const *devices, int fallback,
                                 const clade_compile_opt *opt) {
  const char *strict = getenv("CLADE_STRICT");
  clade__how how = {.no_fusion = opt->no_fusion,
                    .untuned = opt->untuned,
                    .strict = opt->strict || (strict && !strcmp(strict, "1")),
                    .kernels = true,
                    .fallback = fallback,
                    .prefer = opt->prefer,
                    .place = opt->place,
                    .precision = opt->precision,
                    .types = opt->types,
                    .quantization = opt->quantization,
                    .simulate = opt->simulate};
  clade_status status = opt->choices ? read_choices(opt->choices, &how.pins) : CLADE_OK;
  if (status == CLADE_OK) status = clade__compile(graph, n, devices, &how, opt->out);
  if (status == CLADE_OK && how.pins && (*opt->out)->shaped) clade__tell_idle_pins(*opt->out);
  clade__records_release(how.pins);
  return status;
}

clade_status clade_compile_(clade_graph *graph, clade_device *device, const clade_compile_opt *given) {
  clade_compile_opt opt;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_compile"));
  if (!opt.out) return CLADE_FAIL(INVALID, "clade_compile: there is no place for the func (NULL)");
  *opt.out = NULL;
  if (!graph) return CLADE_FAIL(INVALID, "clade_compile: the graph is NULL");
  if (!device) return CLADE_FAIL(INVALID, "clade_compile: the device is NULL");
  if (opt.n_devices < 0 || opt.n_devices > 1024 || (opt.n_devices && !opt.devices))
    return CLADE_FAIL(INVALID, "clade_compile: .n_devices is %d, .devices is %s", opt.n_devices,
                      opt.devices ? "given" : "NULL");
  clade_device **all = clade__new((size_t)opt.n_devices + 2, sizeof(clade_device *));
  if (!all) return CLADE_NO_MEMORY;
  int n = 0, fallback = -1;
  all[n++] = device;
  for (int i = 0; i < opt.n_devices; i++) all[n++] = opt.devices[i];
  for (int i = 0; i < n && fallback < 0 && opt.fallback; i++) fallback = all[i] == opt.fallback ? i : -1;
  if (opt.fallback && fallback < 0) all[fallback = n++] = opt.fallback;
  clade_status status = compile_with(graph, n, all, fallback, &opt);
  clade__free(all);
  return status;
}

/* ---- specialization ---- */
static int by_name(const void *a, const void *b) {
  return strcmp(((const clade_dim_value *)a)->name, ((const clade_dim_value *)b)->name);
}

static clade_status key_of(int n, const clade_dim_value *dims, clade__hash *key) {
  clade_dim_value *sorted = clade__new((size_t)n, sizeof *sorted);
  if (!sorted) return CLADE_NO_MEMORY;
  if (n) {
    memcpy(sorted, dims, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_name);
  }
  *key = clade__hash_bytes("dims", 4);
  for (int i = 0; i < n; i++) {
    *key = clade__hash_more_text(*key, sorted[i].name);
    *key = clade__hash_more(*key, &sorted[i].value, sizeof sorted[i].value);
  }
  clade__free(sorted);
  return CLADE_OK;
}

/* Compiles a func of constant shapes with the settings of `like`. */
static clade_status shape_like(const clade_func *like, clade_graph *graph, bool same_records, clade_func **out) {
  double start = clade__now();
  const clade__how how = {.no_fusion = like->no_fusion,
                          .strict = like->strict,
                          .fallback = like->fallback,
                          .prefer = like->prefer,
                          .place = like->place,
                          .pins = like->pins,
                          .trusted = like->trusted};
  CLADE_TRY(func_new(graph, like->n_devices, like->devices, &how, out));
  clade_status status = take_tuning(*out, same_records ? like : NULL);
  if (status == CLADE_OK && like->casts && !((*out)->casts = clade__copy_text(like->casts))) status = CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = shape(*out, true);
  (*out)->seconds = clade__now() - start;
  if (status == CLADE_OK) return CLADE_OK;
  clade_func_release(*out);
  *out = NULL;
  return status;
}

clade_status clade__compile_again(const clade_func *func, clade_func **out) {
  return shape_like(func, func->built, false, out);
}

static clade_status specialize(clade_func *func, int n, const clade_dim_value *dims, clade_func **out) {
  clade_graph *bound;
  CLADE_TRY(clade__graph_bind(func->graph, n, dims, &bound));
  clade_status status = shape_like(func, bound, true, out);
  clade_graph_release(bound);
  return status;
}

static clade_status specialize_cached(clade_func *func, int n, const clade_dim_value *dims, clade_func **out) {
  clade__hash key;
  clade_func *made;
  size_t at;
  CLADE_TRY(key_of(n, dims, &key));
  if (!clade__map_get(&func->by_dims, key, &at)) {
    at = func->n_shaped;
    CLADE_TRY(clade__grow(&func->shaped_funcs, &func->shaped_capacity, at + 1, sizeof(clade_func *)));
    CLADE_TRY(specialize(func, n, dims, &made));
    clade_status status = clade__map_put(&func->by_dims, key, at);
    if (status != CLADE_OK) {
      clade_func_release(made);
      return status;
    }
    func->shaped_funcs[func->n_shaped++] = made;
    if (func->pins && at == 0) clade__tell_idle_pins(made);
  }
  *out = clade_func_retain(func->shaped_funcs[at]);
  return CLADE_OK;
}

clade_status clade_func_specialize(clade_func *func, int n, const clade_dim_value *dims, clade_func **out) {
  if (!out) return CLADE_FAIL(INVALID, "clade_func_specialize: there is no place for the func (NULL)");
  *out = NULL;
  if (!func) return CLADE_FAIL(INVALID, "clade_func_specialize: the func is NULL");
  if (n < 0 || (n && !dims)) return CLADE_FAIL(INVALID, "clade_func_specialize: %d sizes, the array is NULL", n);
  for (int i = 0; i < n; i++)
    if (!dims[i].name) return CLADE_FAIL(INVALID, "clade_func_specialize: the name of size %d is NULL", i);
  CLADE_TRY(check_devices(func->n_devices, func->devices, "clade_func_specialize"));
  if (func->shaped) {
    if (n)
      return CLADE_FAIL(INVALID, "clade_func_specialize: dimension %s: the func has no symbols left", dims[0].name);
    *out = clade_func_retain(func);
    return CLADE_OK;
  }
  pthread_mutex_lock(&func->lock);
  clade_status status = specialize_cached(func, n, dims, out);
  pthread_mutex_unlock(&func->lock);
  return status;
}
