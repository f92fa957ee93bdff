/* Writes one file of each format to a directory, with contents known to read_back.py and other_readers.py. */
#include <math.h>
#include <stdio.h>

#include <clade/clade.h>

#define TRY(expression)                                             \
  do {                                                              \
    if ((expression) != CLADE_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #expression, clade_last_error()); \
      return 1;                                                     \
    }                                                               \
  } while (0)

static const struct {
  const char *name;
  clade_dtype dtype;
  clade_shape shape;
  bool parameter;
} model[] = {
    {"z.weight", CLADE_F32, {2, {3, 4}}, true},
    {"a.weight", CLADE_F32, {1, {5}}, true},
    {"half", CLADE_F16, {2, {2, 3}}, true},
    {"brain", CLADE_BF16, {1, {3}}, false},
    {"count", CLADE_I64, {0, {0}}, false},
    {"small", CLADE_I8, {1, {3}}, false},
    {"bytes", CLADE_U8, {1, {300}}, false},
    {"whole", CLADE_I32, {3, {1, 2, 3}}, false},
    {"truth", CLADE_BOOL, {1, {3}}, false},
    {"none", CLADE_F32, {2, {0, 3}}, false},
    {"optimizer.m/z.weight", CLADE_F32, {2, {3, 4}}, false},
};
enum { COUNT = sizeof model / sizeof *model };

static clade_status make_vars(clade_device *device, clade_vars **out) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  const clade_initial zero = {CLADE_INIT_ZERO, 0, 0};
  clade_status status = clade_graph_new(&g);
  for (int i = 0; i < COUNT && status == CLADE_OK; i++) {
    clade_val v =
        (model[i].parameter ? clade_parameter : clade_variable)(g, model[i].name, model[i].dtype, model[i].shape, zero);
    if (i == 0) clade_output(g, "y", v);
  }
  if (status == CLADE_OK) status = clade_compile(g, device, &func);
  clade_graph_release(g);
  if (status == CLADE_OK) status = clade_vars_new(func, 0, out);
  clade_func_release(func);
  return status;
}

/* Element i is (i + index of the variable) / 2, converted to its type. */
static clade_status fill(clade_vars *vars) {
  for (int v = 0; v < COUNT; v++) {
    float values[300];
    unsigned char data[8 * 300];
    int64_t n;
    size_t bytes;
    clade_status status = clade_shape_elements(&model[v].shape, &n);
    for (int i = 0; i < n; i++) values[i] = model[v].dtype == CLADE_BOOL ? (float)(i % 2) : (float)((i + v) % 256) / 2;
    if (status == CLADE_OK) status = clade_convert(model[v].dtype, data, CLADE_F32, values, (size_t)n);
    if (status == CLADE_OK) status = clade_dtype_bytes(model[v].dtype, n, &bytes);
    if (status == CLADE_OK) status = clade_vars_set(vars, model[v].name, data, bytes);
    if (status != CLADE_OK) return status;
  }
  return CLADE_OK;
}

static int tell_events(const char *path) {
  clade_events *events;
  float values[1000];
  for (int i = 0; i < 1000; i++) values[i] = (float)(i * i % 1009) / 64 - 3;
  values[17] = NAN;
  values[18] = -INFINITY;
  TRY(clade_events_open(path, 0, &events));
  for (int step = 0; step < 20; step++) TRY(clade_events_scalar(events, step, "loss", 1.0 / (step + 1)));
  clade_events_close(events);
  TRY(clade_events_open(path, 10, &events)); /* resumed: steps 10 to 19 are written again */
  for (int step = 10; step < 300; step++) TRY(clade_events_scalar(events, step, "loss", 2.0 / (step + 1)));
  TRY(clade_events_scalar(events, 300, "odd,\"tag\"", NAN));
  TRY(clade_events_histogram(events, 300, "weights/z", values, 1000));
  TRY(clade_events_histogram(events, 300, "weights/one", values, 1));
  TRY(clade_events_histogram(events, 300, "weights/none", NULL, 0));
  clade_events_close(events);
  return 0;
}

int main(int argc, char **argv) {
  char path[1024], hash[65];
  clade_device *device;
  clade_vars *vars;
  clade_checkpoint_dir *dir;
  if (argc != 2) return 2;
  TRY(clade_device_find("pocl", &device));
  TRY(make_vars(device, &vars));
  TRY(fill(vars));
  snprintf(path, sizeof path, "%s/all.safetensors", argv[1]);
  TRY(clade_vars_save(vars, path));
  snprintf(path, sizeof path, "%s/weights.safetensors", argv[1]);
  TRY(clade_vars_save(vars, path, .weights_only = true));
  snprintf(path, sizeof path, "%s/checkpoints", argv[1]);
  TRY(clade_checkpoint_dir_open(path, &dir));
  for (int step = 1; step <= 5; step++)
    TRY(clade_checkpoint_save(dir, vars, step, "{\"ü\": [1, \"\\n\"]}", .best = step == 2));
  clade_checkpoint_dir_close(dir);
  snprintf(path, sizeof path, "%s/logs", argv[1]);
  if (tell_events(path)) return 1;
  TRY(clade_vars_sha256(vars, hash));
  printf("%s\n", hash);
  clade_vars_release(vars);
  clade_device_release(device);
  return 0;
}
