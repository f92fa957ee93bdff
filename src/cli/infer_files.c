/* clade infer DIR|FILE.safetensors: runs a trained model on the images of an NPY file and writes the results to
 * another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/json.h"
#include "cli/infer.h"
#include "models/models.h"

typedef struct files {
  clade_array x, y;
  clade_shape image;
  size_t sample;
  int64_t count, batch;
  clade_checkpoint *checkpoint; /* NULL: the weights come from a file */
  char *model;
  bool pruned;        /* the model has the checkpoint's shapes */
  char *quantization; /* as clade_compile(.quantization); NULL: f32 */
  bool simulate;      /* trained with --qat but not yet quantized: quantization is simulated */
  int64_t classes;
  clade_device *device, *fallback;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  float *rows;    /* images of a batch */
  float *channel; /* means and deviations of the channels by which training normalized; NULL: not normalized */
  double seconds;
  char sha[65];
} files;

/* An input [n, height, width] has one channel; [n, values] is a list of vectors. */
static clade_status read_input(const infer_job *job, files *f) {
  char text[128];
  CLADE_TRY(clade_npy_read(job->input, &f->x));
  const clade_shape *s = &f->x.shape;
  if (s->rank < 2 || s->rank > 4)
    return CLADE_FAIL(BAD_SHAPE,
                      "%s: its shape is %s; images are [n, channels, height, width], [n, height, width] or [n, values]",
                      job->input, clade_shape_text(s, text, sizeof text));
  if (f->x.dtype != CLADE_F32 && f->x.dtype != CLADE_U8)
    return CLADE_FAIL(DTYPE, "%s: its numbers are %s; f4, or u1 from 0 to 255, are expected", job->input,
                      clade_dtype_name(f->x.dtype));
  f->count = s->dim[0];
  f->image = (clade_shape){.rank = 3, .dim = {1, 1, 1}};
  for (int i = 1; i < s->rank; ++i) f->image.dim[3 - s->rank + i] = s->dim[i];
  int64_t elements;
  CLADE_TRY(clade_shape_elements(&f->image, &elements)); /* an empty array does not bound the sizes */
  f->sample = (size_t)elements;
  return f->sample ? CLADE_OK
                   : CLADE_FAIL(BAD_SHAPE, "%s: its images have no pixels: %s", job->input,
                                clade_shape_text(s, text, sizeof text));
}

/* Reads an array of the state's "normalize": one number for each channel. */
static bool read_channels(const json_t *normalize, const char *name, int64_t channels, float *to) {
  const json_t *values = json_object_get(normalize, name);
  if ((int64_t)json_array_size(values) != channels) return false;
  for (int64_t i = 0; i < channels; ++i) {
    const json_t *value = json_array_get(values, (size_t)i);
    to[i] = (float)json_number_value(value);
    if (!json_is_number(value) || !isfinite(to[i])) return false;
  }
  return true;
}

static clade_status read_normalize(const json_t *state, files *f) {
  const json_t *normalize = clade__json_member(state, "normalize");
  int64_t channels = f->image.dim[0];
  if (!normalize || json_is_null(normalize)) return CLADE_OK;
  f->channel = clade__new(2 * (size_t)channels, sizeof *f->channel);
  if (!f->channel) return CLADE_NO_MEMORY;
  bool right = read_channels(normalize, "mean", channels, f->channel) &&
               read_channels(normalize, "std", channels, f->channel + channels);
  for (int64_t i = channels; right && i < 2 * channels; ++i) right = f->channel[i] > 0;
  return right ? CLADE_OK
               : CLADE_FAIL(CORRUPT, "%s: its means and deviations of %lld channels are not to be understood",
                            clade_checkpoint_path(f->checkpoint), (long long)channels);
}

static clade_status wrong_images(const infer_job *job, const files *f, const json_t *trained) {
  char text[128];
  char *shape = json_dumps(trained, JSON_COMPACT | JSON_ENCODE_ANY);
  clade_status status = CLADE_FAIL(BAD_SHAPE, "%s: its images are %s, the model in %s was trained on %.64s", job->input,
                                   clade_shape_text(&f->image, text, sizeof text), clade_checkpoint_path(f->checkpoint),
                                   shape ? shape : "others");
  free(shape);
  return status;
}

/* The quantized layers of a checkpoint, or the layers of its --qat training. */
static clade_status read_quantization(const json_t *state, files *f) {
  f->simulate = json_is_object(json_object_get(state, "qat"));
  const char *member = f->simulate ? "qat" : "quantization";
  const json_t *quantization = json_object_get(state, member);
  const char *layers = json_string_value(json_object_get(quantization, "layers"));
  if (!quantization) return CLADE_OK;
  if (!layers)
    return CLADE_FAIL(CORRUPT, "%s: its \"%s\" does not list layers", clade_checkpoint_path(f->checkpoint), member);
  f->quantization = clade__copy_text(layers);
  return f->quantization ? CLADE_OK : CLADE_NO_MEMORY;
}

static clade_status take_model(files *f, const char *name) {
  f->model = clade__copy_text(name);
  return f->model ? CLADE_OK : CLADE_NO_MEMORY;
}

/* Compares --classes and the images with those that the checkpoint's model was made for. */
static clade_status check_state(const infer_job *job, files *f) {
  json_t *state = clade__json_load_text(clade_checkpoint_text(f->checkpoint)), *shape = json_object_get(state, "shape");
  const char *model = json_string_value(json_object_get(json_object_get(state, "course"), "model"));
  const char *path = clade_checkpoint_path(f->checkpoint);
  clade_status status = CLADE_OK;
  f->classes = json_integer_value(json_object_get(state, "classes"));
  f->pruned = json_is_object(json_object_get(state, "pruned"));
  bool same = json_array_size(shape) == 3;
  for (size_t i = 0; same && i < 3; ++i) same = json_integer_value(json_array_get(shape, i)) == f->image.dim[i];
  if (!model || f->classes < 1 || f->classes > CLADE_TRAIN_MAX_CLASSES)
    status = CLADE_FAIL(CORRUPT, "%s: it does not say which model it holds", path);
  else if (job->model && strcmp(model, job->model))
    status = CLADE_FAIL(INVALID, "%s: it holds the model %s, not %s", path, model, job->model);
  else if (!same)
    status = wrong_images(job, f, shape);
  else if (!job->model && !model_by_name(model))
    status = CLADE_FAIL(INVALID, "%s: it holds the model \"%.64s\" of another program; %s can be run here", path, model,
                        MODEL_NAMES);
  else
    status = read_normalize(state, f);
  if (status == CLADE_OK) status = read_quantization(state, f);
  if (status == CLADE_OK) status = take_model(f, model);
  json_decref(state);
  return status;
}

static clade_status open_weights(const infer_job *job, files *f) {
  struct stat at;
  f->classes = job->classes;
  if (stat(job->weights, &at) || !S_ISDIR(at.st_mode))
    return take_model(f, job->model); /* a file is read later, once the variables exist */
  CLADE_TRY(clade_checkpoint_open(job->weights, CLADE_CHECKPOINT_BEST, &f->checkpoint));
  return check_state(job, f);
}

clade_status infer_load(clade_vars *vars, const char *file) {
  const clade_status status = clade_vars_load(vars, file, .weights_only = true);
  if (status != CLADE_BAD_SHAPE && status != CLADE_NOT_FOUND) return status;
  return clade__fail_in(status, "a file has the shapes of --model; of a pruned or quantized run name the directory");
}

static clade_status build(const infer_job *job, files *f) {
  clade_shape shape = {.rank = 4, .dim = {f->batch, f->image.dim[0], f->image.dim[1], f->image.dim[2]}};
  CLADE_TRY(infer_devices(job, &f->device, &f->fallback));
  CLADE_TRY(clade_graph_new(&f->graph));
  if (f->pruned) CLADE_TRY(clade_checkpoint_shapes(f->checkpoint, f->graph));
  clade_val x = clade_input(f->graph, "x", CLADE_F32, shape);
  clade_val logits = model_by_name(f->model)(f->graph, x, (int)f->classes, NULL);
  clade_output(f->graph, "p", clade_softmax(f->graph, logits, -1));
  CLADE_TRY(clade_compile(f->graph, f->device, &f->func, .fallback = f->fallback, .place = job->place,
                          .precision = job->precision, .types = job->types, .quantization = f->quantization,
                          .simulate = f->simulate));
  CLADE_TRY(clade_vars_new(f->func, 0, &f->vars));
  CLADE_TRY(f->checkpoint ? clade_checkpoint_apply(f->checkpoint, f->vars) : infer_load(f->vars, job->weights));
  return clade_run_new(f->func, f->vars, &f->run);
}

/* Normalizes images as training did. */
static void normalize_rows(files *f, int64_t n) {
  size_t channels = (size_t)f->image.dim[0], pixels = f->sample / channels;
  for (size_t i = 0; i < (size_t)n * f->sample; ++i) {
    size_t c = i / pixels % channels;
    f->rows[i] = (f->rows[i] - f->channel[c]) / f->channel[channels + c];
  }
}

/* Copies n images from `first` on as floats; bytes are scaled to 0 to 1. The rest of the batch is 0. */
static void take_rows(files *f, int64_t first, int64_t n) {
  size_t at = (size_t)first * f->sample, count = (size_t)n * f->sample;
  memset(f->rows, 0, (size_t)f->batch * f->sample * sizeof *f->rows);
  if (f->x.dtype == CLADE_F32)
    memcpy(f->rows, (const float *)f->x.data + at, count * sizeof *f->rows);
  else
    for (size_t i = 0; i < count; ++i) f->rows[i] = (float)((const uint8_t *)f->x.data)[at + i] / 255;
  if (f->channel) normalize_rows(f, n);
}

static clade_status compute(files *f) {
  size_t row = (size_t)f->classes, batch = (size_t)f->batch;
  float *p = clade__new(batch * row, sizeof *p), *y = f->y.data;
  if (!p) return CLADE_NO_MEMORY;
  clade_status status = CLADE_OK;
  double begun = clade__now();
  for (int64_t first = 0; first < f->count; first += f->batch) {
    int64_t n = CLADE_MIN(f->batch, f->count - first);
    clade_ticket ticket;
    take_rows(f, first, n);
    CLADE_GOTO(clade_execute(f->run, CLADE_FEEDS({"x", f->rows, batch * f->sample * sizeof *f->rows, NULL}), &ticket));
    CLADE_GOTO(clade_read(f->run, ticket, "p", p, batch * row * sizeof *p));
    memcpy(y + (size_t)first * row, p, (size_t)n * row * sizeof *p);
  }
  f->seconds = clade__now() - begun;
fail:
  clade__free(p);
  return status;
}

static clade_status work(const infer_job *job, files *f) {
  CLADE_TRY(read_input(job, f));
  CLADE_TRY(open_weights(job, f));
  f->batch = CLADE_MAX(CLADE_MIN(job->batch, f->count), (int64_t)1);
  CLADE_TRY(build(job, f));
  f->y.dtype = CLADE_F32;
  f->y.shape = CLADE_SHAPE(f->count, f->classes);
  CLADE_TRY(clade_type_bytes(&(clade_type){.dtype = CLADE_F32, .shape = f->y.shape}, &f->y.bytes));
  f->y.data = clade__new(CLADE_MAX(f->y.bytes, (size_t)1), 1);
  f->rows = clade__new((size_t)f->batch * f->sample, sizeof *f->rows);
  if (!f->y.data || !f->rows) return CLADE_NO_MEMORY;
  CLADE_TRY(compute(f));
  CLADE_TRY(infer_digest(f->y.data, f->y.bytes, f->sha));
  if (job->output) CLADE_TRY(clade_npy_write(job->output, &f->y));
  return job->explain ? infer_explain(job, f->func) : CLADE_OK;
}

/* The most likely class of an image, printed if there is no --output. */
static int64_t answer(const files *f, int64_t image) {
  const float *p = (const float *)f->y.data + image * f->classes;
  int64_t best = 0;
  for (int64_t i = 1; i < f->classes; ++i)
    if (p[i] > p[best]) best = i;
  return best;
}

static void print_answers(const files *f) {
  for (int64_t i = 0; i < f->count; ++i) {
    int64_t best = answer(f, i);
    printf("image %lld: class %lld (%.4f)\n", (long long)i, (long long)best,
           (double)((const float *)f->y.data)[i * f->classes + best]);
  }
}

static json_t *answers_json(const files *f) {
  json_t *list = json_array();
  for (int64_t i = 0; i < f->count; ++i) json_array_append_new(list, json_integer((json_int_t)answer(f, i)));
  return list;
}

static int report(const infer_job *job, const files *f) {
  double speed = f->seconds > 0 ? (double)f->count / f->seconds : 0;
  const char *from = f->checkpoint ? clade_checkpoint_path(f->checkpoint) : job->weights;
  if (!job->args.json) {
    if (!job->output) print_answers(f);
    printf("%s with %s: %lld images of %s in %.3f s, %.0f images/s\n", f->model, from, (long long)f->count, job->input,
           f->seconds, speed);
    if (job->output) printf("probabilities of %lld classes in %s\n", (long long)f->classes, job->output);
    printf("sha256 %s\n", f->sha);
    return CLI_DONE;
  }
  return cli_json_end(infer_add_func(
      json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:I, s:f, s:f, s:s}", "model", f->model, "weights",
                cli_json_text(from), "input", cli_json_text(job->input), "output", cli_json_text(job->output),
                "answers", job->output ? json_null() : answers_json(f), "count", (json_int_t)f->count, "classes",
                (json_int_t)f->classes, "device", infer_device_json(f->device), "batch", (json_int_t)f->batch,
                "seconds", f->seconds, "images_per_s", speed, "output_sha256", f->sha),
      f->func, f->fallback));
}

int infer_files(const infer_job *job) {
  files f = {.batch = 0};
  clade_status status = work(job, &f);
  int result = status ? cli_failed_status(status) : report(job, &f);
  clade_run_free(f.run);
  clade_vars_release(f.vars);
  clade_func_release(f.func);
  clade_graph_release(f.graph);
  clade_device_release(f.device);
  clade_device_release(f.fallback);
  clade_checkpoint_free(f.checkpoint);
  clade_array_free(&f.x);
  clade__free(f.y.data);
  clade__free(f.rows);
  clade__free(f.channel);
  clade__free(f.model);
  clade__free(f.quantization);
  return result;
}
