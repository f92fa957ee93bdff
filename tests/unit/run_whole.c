/* Normalization of values that exceed the caches while each channel fits: one launch for all channels or one per
 * channel gives the same bits as separate launches for parts, compared on half of the channels. */
#include <stdio.h>

#include "cl/internal.h"
#include "op/norm/batch_norm.h"
#include "plan_kit.h"

enum { OPERANDS = 6, RESULTS = 6 };
#define PARTS "join" /* a launch of its own, like the others */
static const char *const operands[OPERANDS] = {"x", "dy", "weight", "bias", "running_mean", "running_var"};
static const char *const results[RESULTS] = {"y", "dx", "mean", "var", "dweight", "dbias"};

typedef struct norm {
  int samples, pixels, channels, all; /* the first of `all` channels */
  float *in[OPERANDS], *out[RESULTS];
} norm;

static size_t elements(const norm *n, int i) {
  return (size_t)n->channels * (i < 2 ? (size_t)(n->samples * n->pixels) : 1);
}

/* The same number at the same position for any number of channels. */
static float number(const norm *n, int operand, size_t i) {
  size_t pixels = (size_t)n->pixels, row = i / pixels, c = (size_t)n->channels, all = (size_t)n->all;
  uint32_t at = (uint32_t)(operand < 2 ? (row / c * all + row % c) * pixels + i % pixels : i);
  uint32_t h = (at + 1 + (uint32_t)operand * 77) * 2654435761u;
  return (float)((h ^ h >> 15) % 4096) / 2048.0f + 0.25f;
}

/* y = relu(normalized + dy) in one step. */
static void build(clade_graph *g, const norm *n) {
  const clade_shape image = CLADE_SHAPE(n->samples, n->channels, 1, n->pixels);
  clade_val in[OPERANDS], next[2], d[3];
  for (int i = 0; i < OPERANDS; i++)
    in[i] = clade_input(g, operands[i], CLADE_F32, i < 2 ? image : CLADE_SHAPE(n->channels));
  clade_val y = clade__batch_norm(g, (clade_val[]){in[0], in[2], in[3], in[4], in[5]}, 1e-5f, 0.1f, next);
  y = clade_relu(g, clade_add(g, y, in[1]));
  OK(clade_gradients(g, y, in[1], 3, (clade_val[]){in[0], in[2], in[3]}, d));
  clade_val out[RESULTS] = {y, d[0], next[0], next[1], d[1], d[2]};
  for (int i = 0; i < RESULTS; i++) clade_output(g, results[i], out[i]);
}

static bool goes(const char *steps, const char *how) {
  char forward[64], grad[64];
  snprintf(forward, sizeof forward, "batch_norm_forward_%s", how);
  snprintf(grad, sizeof grad, "batch_norm_grad_%s", how);
  return strstr(steps, forward) && strstr(steps, grad);
}

static void compute(clade_device *device, norm *n, const char *prefer, const char *how) {
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
  assert_true(goes(steps, how));
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
    size_t row = i < 2 ? (size_t)half->pixels : 1, wrong = 0;
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

/* As many samples as make all channels exceed the caches, while half of them fit. */
static void same_bits(clade_device *device, const char *prefer, norm all, const char *how) {
  norm half = all;
  half.channels /= 2;
  compute(device, &all, prefer, how);
  compute(device, &half, prefer, PARTS);
  compare(&half, &all);
  release(&all);
  release(&half);
}

static const char ref[] = "batch_norm=ref,batch_norm_grad=ref",
                  blocked[] = "batch_norm=blocked,batch_norm_grad=blocked";

static uint64_t least_bytes(const clade_device_info *info) { return clade__last_cache(info) * 2 / 3; }

static void channels(void **state) {
  const clade_device_info *info = clade__device_info(*state);
  const bool cpu = info->device_class == CLADE_CPU;
  const char *how = cpu && !info->max_passes ? "whole" : PARTS;
  norm all = {.pixels = 63,
              /* Blocks of 16 for all units, even for half of the channels. */
              .channels = 64 * (int)info->compute_units};
  all.all = all.channels;
  all.samples = (int)(least_bytes(info) / (4 * (uint64_t)(all.pixels * all.channels))) + 1;
  same_bits(*state, ref, all, how);
  if (cpu) same_bits(*state, blocked, all, how);
}

/* With a smaller assumed cache, all compute units process one channel at a time, in several chunks each, the last
 * one short; chunks and their parts end within images. */
static void turns(void **state) {
  clade_device *device = *state;
  clade_device_info *info = &device->facts.info;
  const clade_device_info own = *info;
  const uint64_t least = clade__least_cache;
  if (!info->persistent || info->max_passes) skip();
  const int chunks = 2 * (int)info->compute_units + 1;
  norm all = {.samples = chunks * 4096 / 176, .pixels = 176, .channels = 12, .all = 12};
  const uint64_t channel = sizeof(float) * (uint64_t)(all.samples * all.pixels);
  info->l2_bytes = 2 * channel / info->compute_units + 1; /* including dy */
  info->cache_bytes = clade__least_cache = channel * 12;
  same_bits(device, ref, all, "turn");
  *info = own;
  clade__least_cache = least;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(channels), cmocka_unit_test(turns)};
  return cmocka_run_group_tests_name("channels that a cache holds", tests, open_device, close_device);
}
