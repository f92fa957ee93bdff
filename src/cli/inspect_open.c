/* Opens what clade inspect looks at: a run, a file of weights, or a model with initial values. */
#include <sys/stat.h>

#include "base/dtype.h"
#include "base/json.h"
#include "cli/infer.h"
#include "cli/inspect.h"
#include "models/models.h"

/* Precision of the training, such as "bf16, fc3=f32". */
static clade_status read_precision(inspect_job *job) {
  const char *text = json_string_value(json_object_get(json_object_get(job->state, "settings"), "precision"));
  if (job->precision || !text || job->quantization) return CLADE_OK;
  job->precision_text = clade__copy_text(text);
  if (!job->precision_text) return CLADE_NO_MEMORY;
  char *types = strchr(job->precision_text, ',');
  if (types) {
    *types++ = 0;
    job->types = types + strspn(types, " ");
  }
  job->precision = clade__dtype_named(job->precision_text);
  return CLADE_OK;
}

static clade_status read_image(inspect_job *job, const char *path) {
  const json_t *shape = json_object_get(job->state, "shape");
  job->image.rank = (int)CLADE_MIN(json_array_size(shape), (size_t)CLADE_MAX_RANK - 1);
  for (int i = 0; i < job->image.rank; i++) {
    job->image.dim[i] = json_integer_value(json_array_get(shape, (size_t)i));
    if (job->image.dim[i] < 1) job->image.rank = 0;
  }
  return job->image.rank ? CLADE_OK : CLADE_FAIL(CORRUPT, "%s: it does not say what its images are", path);
}

static clade_status read_state(inspect_job *job) {
  const char *path = clade_checkpoint_path(job->checkpoint);
  job->state = clade__json_load_text(clade_checkpoint_text(job->checkpoint));
  job->model = json_string_value(json_object_get(json_object_get(job->state, "course"), "model"));
  job->classes = json_integer_value(json_object_get(job->state, "classes"));
  const char *structure = json_string_value(json_object_get(json_object_get(job->state, "pruned"), "structure"));
  job->shaped = structure != NULL;
  job->pruned = structure && strcmp(structure, clade_prune_structure_name(CLADE_PRUNE_NONE)) != 0;
  job->simulate = json_is_object(json_object_get(job->state, "qat"));
  const json_t *quantization = json_object_get(job->state, job->simulate ? "qat" : "quantization");
  job->quantization = json_string_value(json_object_get(quantization, "layers"));
  if (!job->model || job->classes < 1 || job->classes > CLADE_TRAIN_MAX_CLASSES)
    return CLADE_FAIL(CORRUPT, "%s: it does not say which model it holds", path);
  if (!model_by_name(job->model))
    return CLADE_FAIL(INVALID, "%s: it holds the model \"%.64s\" of another program; expected " MODEL_NAMES, path,
                      job->model);
  if (job->model_given && strcmp(job->model, job->model_given) != 0)
    return CLADE_FAIL(INVALID, "%s: it holds the model %s, not %s", path, job->model, job->model_given);
  if (quantization && !job->quantization)
    return CLADE_FAIL(CORRUPT, "%s: it does not say which layers are quantized", path);
  CLADE_TRY(read_image(job, path));
  return read_precision(job);
}

static clade_status build(inspect_job *job) {
  clade_shape shape = {.rank = job->image.rank + 1, .dim = {job->batch}};
  for (int i = 0; i < job->image.rank; i++) shape.dim[i + 1] = job->image.dim[i];
  CLADE_TRY(clade_graph_new(&job->graph));
  if (job->shaped) CLADE_TRY(clade_checkpoint_shapes(job->checkpoint, job->graph));
  const clade_val x = clade_input(job->graph, "x", CLADE_F32, shape);
  clade_output(job->graph, "y", model_by_name(job->model)(job->graph, x, (int)job->classes, NULL));
  return clade_graph_status(job->graph);
}

static clade_status fill(inspect_job *job) {
  CLADE_TRY(clade_vars_new(job->func, 0, &job->vars));
  if (job->checkpoint) return clade_checkpoint_apply(job->checkpoint, job->vars);
  return job->source ? infer_load(job->vars, job->source) : CLADE_OK;
}

clade_status inspect_open(inspect_job *job) {
  struct stat at;
  job->model = job->model_given;
  if (job->source && !stat(job->source, &at) && S_ISDIR(at.st_mode)) {
    CLADE_TRY(clade_checkpoint_open(job->source, CLADE_CHECKPOINT_BEST, &job->checkpoint));
    CLADE_TRY(read_state(job));
  }
  CLADE_TRY(clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &job->device));
  CLADE_TRY(build(job));
  CLADE_TRY(clade_compile(job->graph, job->device, &job->func, .precision = job->precision, .types = job->types,
                          .quantization = job->quantization, .simulate = job->simulate));
  return fill(job);
}

void inspect_close(inspect_job *job) {
  for (size_t i = 0; i < job->n_layers; i++) clade__free(job->layers[i].name);
  clade__free(job->layers);
  clade__free(job->layer);
  clade__free(job->precision_text);
  clade_vars_release(job->vars);
  clade_func_release(job->func);
  clade_graph_release(job->graph);
  clade_device_release(job->device);
  clade_checkpoint_free(job->checkpoint);
  json_decref(job->state);
}
