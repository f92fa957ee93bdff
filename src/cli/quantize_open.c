/* Opens a run for clade quantize: its best checkpoint, data and f32 model, and calibrates the ranges of layer
 * inputs. */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli/quantize.h"
#include "models/models.h"

static clade_status read_state(quantize_job *job) {
  const char *path;
  CLADE_TRY(clade_checkpoint_open(job->run, CLADE_CHECKPOINT_BEST, &job->checkpoint));
  path = clade_checkpoint_path(job->checkpoint);
  job->state = clade__json_load_text(clade_checkpoint_text(job->checkpoint));
  job->model = json_string_value(json_object_get(json_object_get(job->state, "course"), "model"));
  job->classes = json_integer_value(json_object_get(job->state, "classes"));
  job->pruned = json_is_object(json_object_get(job->state, "pruned"));
  job->normalize = json_is_object(clade__json_member(job->state, "normalize"));
  if (!job->model || job->classes < 1 || job->classes > CLADE_TRAIN_MAX_CLASSES)
    return CLADE_FAIL(CORRUPT, "%s: it does not say which model it holds", path);
  if (!model_by_name(job->model))
    return CLADE_FAIL(INVALID, "%s: it holds the model \"%.64s\" of another program; expected " MODEL_NAMES, path,
                      job->model);
  job->trained = json_string_value(json_object_get(json_object_get(job->state, "qat"), "layers"));
  if (json_object_get(job->state, "quantization"))
    return CLADE_FAIL(INVALID, "%s: its weights are quantized already", path);
  if (!job->data) job->data = json_string_value(json_object_get(job->state, "spec"));
  return job->data ? CLADE_OK : CLADE_FAIL(INVALID, "%s does not say what it was trained on: name it by --data", path);
}

/* Checks that images and classes of the set fit the model. */
static clade_status check_data(quantize_job *job) {
  clade_dataset_info data = {.size = sizeof data};
  const json_t *shape = json_object_get(job->state, "shape");
  char text[128];
  CLADE_TRY(clade_dataset_describe(job->train, &data));
  if (data.count < 1) return CLADE_FAIL(INVALID, "--data %s: it has no training samples to calibrate by", job->data);
  bool same = json_array_size(shape) == (size_t)data.shape.rank && data.classes == job->classes;
  for (int i = 0; same && i < data.shape.rank; i++)
    same = json_integer_value(json_array_get(shape, (size_t)i)) == data.shape.dim[i];
  if (!same) {
    char *theirs = json_dumps(shape, JSON_COMPACT | JSON_ENCODE_ANY);
    const clade_status status =
        CLADE_FAIL(BAD_SHAPE, "--data %s: its images are %s of %d classes; the model in %s was trained on %s of %lld",
                   job->data, clade_shape_text(&data.shape, text, sizeof text), data.classes,
                   clade_checkpoint_path(job->checkpoint), theirs ? theirs : "others", (long long)job->classes);
    free(theirs);
    return status;
  }
  job->samples = CLADE_MIN(job->samples, data.count);
  CLADE_TRY(clade_shape_elements(&data.shape, &job->sample));
  return clade_loader_new(job->train, &job->loader, .batch = (int)job->batch, .seed = (uint64_t)job->seed,
                          .shuffle = true, .augment = {.normalize = job->normalize});
}

static clade_status build(quantize_job *job) {
  clade_dataset_info data = {.size = sizeof data};
  CLADE_TRY(clade_dataset_describe(job->train, &data));
  clade_shape shape = {.rank = data.shape.rank + 1, .dim = {job->batch}};
  for (int i = 0; i < data.shape.rank; i++) shape.dim[i + 1] = data.shape.dim[i];
  CLADE_TRY(clade_graph_new(&job->graph));
  if (job->pruned) CLADE_TRY(clade_checkpoint_shapes(job->checkpoint, job->graph));
  const clade_val x = clade_input(job->graph, "x", CLADE_F32, shape);
  clade_output(job->graph, "y", model_by_name(job->model)(job->graph, x, (int)job->classes, NULL));
  return clade_graph_status(job->graph);
}

clade_status quantize_open(quantize_job *job) {
  CLADE_TRY(read_state(job));
  CLADE_TRY(clade_dataset_open(job->data, true, &job->train));
  CLADE_TRY(clade_dataset_open(job->data, false, &job->test));
  CLADE_TRY(check_data(job));
  CLADE_TRY(clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &job->device));
  CLADE_TRY(build(job));
  CLADE_TRY(quantize_side_open(job, NULL, &job->before));
  return clade_checkpoint_apply(job->checkpoint, job->before.vars);
}

static clade_status check_batch(const quantize_job *job, const clade_batch *batch, int64_t rows) {
  for (int64_t i = 0; i < rows * job->sample; i++)
    if (!isfinite(batch->x[i]))
      return CLADE_FAIL(INVALID, "--data %s: training sample %lld holds NaN or infinity", job->data,
                        (long long)batch->samples[i / job->sample]);
  return CLADE_OK;
}

clade_status quantize_calibrate(quantize_job *job) {
  CLADE_TRY(clade_quantization_new(job->graph, job->device, job->before.vars, &job->quantization,
                                   .calibration = job->calibration, .weights = job->weights));
  for (int64_t seen = 0; seen < job->samples;) {
    clade_batch batch = {.size = sizeof batch};
    CLADE_TRY(clade_loader_next(job->loader, &batch));
    const int64_t rows = CLADE_MIN((int64_t)batch.n, job->samples - seen);
    CLADE_TRY(check_batch(job, &batch, rows));
    const size_t bytes = (size_t)(job->batch * job->sample) * sizeof *batch.x;
    CLADE_TRY(
        clade_quantization_observe(job->quantization, rows, job->batch, CLADE_FEEDS({"x", batch.x, bytes, NULL})));
    seen += rows;
  }
  return CLADE_OK;
}

void quantize_close(quantize_job *job) {
  quantize_side_close(&job->before);
  quantize_side_close(&job->after);
  clade_quantization_free(job->quantization);
  clade_loader_free(job->loader);
  clade_dataset_release(job->train);
  clade_dataset_release(job->test);
  clade_graph_release(job->graph);
  clade_device_release(job->device);
  clade_checkpoint_free(job->checkpoint);
  json_decref(job->state);
}
