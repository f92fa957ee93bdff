/* Values that no cache holds are normalised channel by channel, each of which one does hold: to the bit what a launch
 * for each part of it makes of half of the channels. */
#include "op/batch_norm.h"
#include "plan_kit.h"

enum { PIXELS = 63, OPERANDS = 6, RESULTS = 6 };
static const char *const operands[OPERANDS] = {"x", "dy", "weight", "bias", "running_mean", "running_var"};
static const char *const results[RESULTS] = {"y", "dx", "mean", "var", "dweight", "dbias"};

typedef struct norm {
  int samples, channels, all; /* of `all` channels the first ones */
  float *in[OPERANDS], *out[RESULTS];
} norm;

static size_t elements(const norm *n, int i) { return (size_t)n->channels * (i < 2 ? (size_t)n->samples * PIXELS : 1); }

/* The same number for the same place, however many channels there are. */
static float number(const norm *n, int operand, size_t i) {
  size_t row = i / PIXELS, c = (size_t)n->channels, all = (size_t)n->all;
  uint32_t at = (uint32_t)(operand < 2 ? (row / c * all + row % c) * PIXELS + i % PIXELS : i);
  uint32_t h = (at + 1 + (uint32_t)operand * 77) * 2654435761u;
  return (float)((h ^ h >> 15) % 4096) / 2048.0f + 0.25f;
}

static void build(clade_graph *g, const norm *n) {
  const clade_shape image = CLADE_SHAPE(n->samples, n->channels, 7, PIXELS / 7);
  clade_val in[OPERANDS], next[2], d[3];
  for (int i = 0; i < OPERANDS; i++)
    in[i] = clade_input(g, operands[i], CLADE_F32, i < 2 ? image : CLADE_SHAPE(n->channels));
  clade_val y = clade__batch_norm(g, (clade_val[]){in[0], in[2], in[3], in[4], in[5]}, 1e-5f, 0.1f, next);
  OK(clade_gradients(g, y, in[1], 3, (clade_val[]){in[0], in[2], in[3]}, d));
  clade_val out[RESULTS] = {y, d[0], next[0], next[1], d[1], d[2]};
  for (int i = 0; i < RESULTS; i++) clade_output(g, results[i], out[i]);
}

static void compute(clade_device *device, norm *n, const char *prefer, bool whole) {
  clade_feed feeds[OPERANDS + 1] = {{0}};
  clade_graph *g = graph_new();
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  char *steps;
  build(g, n);
  OK(clade_compile(g, device, &func, .prefer = prefer));
  clade_graph_release(g);
  OK(clade_func_steps(func, &steps));
  assert_int_equal(whole, strstr(steps, "batch_norm_forward_whole") && strstr(steps, "batch_norm_grad_whole"));
  clade_text_free(steps);
  for (int i = 0; i < OPERANDS; i++) {
    n->in[i] = malloc(elements(n, i) * sizeof(float));
    assert_non_null(n->in[i]);
    for (size_t k = 0; k < elements(n, i); k++) n->in[i][k] = number(n, i, k);
    feeds[i] = (clade_feed){operands[i], n->in[i], elements(n, i) * sizeof(float), NULL};
  }
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, OPERANDS, feeds, &ticket));
  for (int i = 0; i < RESULTS; i++) {
    n->out[i] = malloc(elements(n, i) * sizeof(float));
    assert_non_null(n->out[i]);
    OK(clade_read(run, ticket, results[i], n->out[i], elements(n, i) * sizeof(float)));
  }
  clade_run_free(run);
  clade_func_release(func);
}

static void compare(const norm *half, const norm *all) {
  for (int i = 0; i < RESULTS; i++) {
    size_t row = i < 2 ? PIXELS : 1, wrong = 0;
    for (size_t k = 0; k < elements(half, i); k += row) {
      size_t c = (size_t)half->channels, from = (k / row / c * (size_t)all->channels + k / row % c) * row;
      wrong += memcmp(half->out[i] + k, all->out[i] + from, row * sizeof(float)) != 0;
    }
    if (wrong) fail_msg("%zu rows of %s are not the same bits", wrong, results[i]);
  }
}

static void release(norm *n) {
  for (int i = 0; i < OPERANDS; i++) free(n->in[i]);
  for (int i = 0; i < RESULTS; i++) free(n->out[i]);
}

static void same_bits(clade_device *device, const char *prefer, bool whole) {
  const clade_device_info *info = clade__device_info(device);
  uint64_t bytes = info->cache_bytes > 1u << 22 ? info->cache_bytes : 1u << 22;
  int channels = 64 * (int)info->compute_units; /* blocks of 16 for all units, even of the half */
  int samples = (int)(bytes * 2 / 3 / (4 * PIXELS * (uint64_t)channels)) + 1;
  norm all = {.samples = samples, .channels = channels, .all = channels};
  norm half = {.samples = samples, .channels = channels / 2, .all = channels};
  compute(device, &all, prefer, whole);
  compute(device, &half, prefer, false);
  compare(&half, &all);
  release(&all);
  release(&half);
}

static void channels(void **state) {
  const clade_device_info *info = clade__device_info(*state);
  bool cpu = info->device_class == CLADE_CPU;
  same_bits(*state, "batch_norm=ref,batch_norm_grad=ref", cpu && !info->max_passes);
  if (cpu) same_bits(*state, "batch_norm=blocked,batch_norm_grad=blocked", !info->max_passes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(channels)};
  return cmocka_run_group_tests_name("channels that a cache holds", tests, open_device, close_device);
}
