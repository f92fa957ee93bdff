/* The layer of experts beside plain C in double: one and two experts of a token, experts that are full, one group and
 * several, its derivatives by differences, types, refusals. */
#include <math.h>

#include <clade/nn.h>

#include "plan_kit.h"

enum { MOST = 4096 };

typedef struct layer {
  int groups, tokens, width, experts, hidden, top;
  float capacity;
} layer;

/* Parameters and x in this order. */
enum { X, GATE, UP, UP_BIAS, DOWN, DOWN_BIAS, VALUES };
static const char *const names[VALUES] = {"x",           "moe.gate.weight", "moe.up.weight",
                                          "moe.up.bias", "moe.down.weight", "moe.down.bias"};

static int count(const layer *l, int which) {
  const int counts[VALUES] = {l->groups * l->tokens * l->width,  l->experts * l->width,
                              l->experts * l->width * l->hidden, l->experts * l->hidden,
                              l->experts * l->hidden * l->width, l->experts * l->width};
  return counts[which];
}

static float given[VALUES][MOST];

static void draw(const layer *l) {
  uint32_t seed = 12345;
  for (int v = 0; v < VALUES; v++)
    for (int i = 0; i < count(l, v); i++) {
      seed = seed * 1664525u + 1013904223u;
      given[v][i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
}

/* ---- in plain C ---- */
static int room_of(const layer *l) {
  const double room = ceil((double)l->capacity * l->top * l->tokens / l->experts);
  return (int)fmin(fmax(room, 1), l->tokens);
}

/* gelu(x up + bias) down + bias, times `weight`, added to y. */
static void add_expert(const layer *l, const double *x, int e, double weight, double *y) {
  for (int w = 0; w < l->width; w++) y[w] += weight * (double)given[DOWN_BIAS][e * l->width + w];
  for (int h = 0; h < l->hidden; h++) {
    double sum = (double)given[UP_BIAS][e * l->hidden + h];
    for (int w = 0; w < l->width; w++) sum += x[w] * (double)given[UP][(e * l->width + w) * l->hidden + h];
    sum *= 0.5 * (1 + erf(sum / sqrt(2)));
    for (int w = 0; w < l->width; w++) y[w] += weight * sum * (double)given[DOWN][(e * l->hidden + h) * l->width + w];
  }
}

static int largest(const layer *l, const double *p, int but) {
  int best = -1;
  for (int e = 0; e < l->experts; e++)
    if (e != but && (best < 0 || p[e] > p[best])) best = e;
  return best;
}

/* The results, [groups, tokens, width], and how uneven experts are used; how many choices found no room. */
static int expected(const layer *l, double *y, double *uneven) {
  int lost = 0;
  *uneven = 0;
  for (int g = 0; g < l->groups; g++) {
    int used[16] = {0};
    double p[64][16], part[16] = {0}, mean[16] = {0};
    int choice[2][64];
    for (int t = 0; t < l->tokens; t++) {
      const float *x = given[X] + (g * l->tokens + t) * l->width;
      double sum = 0;
      for (int e = 0; e < l->experts; e++) {
        double logit = 0;
        for (int w = 0; w < l->width; w++) logit += (double)x[w] * (double)given[GATE][e * l->width + w];
        sum += p[t][e] = exp(logit);
      }
      for (int e = 0; e < l->experts; e++) mean[e] += (p[t][e] /= sum) / l->tokens;
      choice[0][t] = largest(l, p[t], -1);
      choice[1][t] = largest(l, p[t], choice[0][t]);
      part[choice[0][t]] += 1.0 / l->tokens;
    }
    for (int e = 0; e < l->experts; e++) *uneven += l->experts * part[e] * mean[e] / l->groups;
    for (int k = 0; k < l->top; k++)
      for (int t = 0; t < l->tokens; t++) {
        const int e = choice[k][t], at = (g * l->tokens + t) * l->width;
        const double all = l->top == 1 ? 1 : p[t][choice[0][t]] + p[t][choice[1][t]];
        double x[64];
        for (int w = 0; w < l->width; w++) x[w] = (double)given[X][at + w];
        /* second choices stand behind all first ones, also those that found no room */
        if (used[e]++ < room_of(l))
          add_expert(l, x, e, p[t][e] / all, y + at);
        else
          lost++;
      }
  }
  return lost;
}

/* Of y a sum with factors that differ, and of how uneven experts are used. */
static double factor(int i) { return sin(1 + i * 0.37); }
static double loss_of(const layer *l) {
  static double y[MOST];
  double uneven, sum;
  memset(y, 0, sizeof y);
  expected(l, y, &uneven);
  sum = 0.5 * uneven;
  for (int i = 0; i < count(l, X); i++) sum += factor(i) * y[i];
  return sum;
}

/* ---- by the layer ---- */
static void compare(const layer *l, clade_device *device, bool flat) {
  static double y[MOST];
  static float found[MOST], factors[MOST];
  double uneven;
  float balance;
  draw(l);
  memset(y, 0, sizeof y);
  const int lost = expected(l, y, &uneven);
  clade_graph *g = graph_new();
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  clade_val unevenly, values[VALUES], gradients[VALUES];
  const clade_shape shape = flat ? CLADE_SHAPE(l->tokens, l->width) : CLADE_SHAPE(l->groups, l->tokens, l->width);
  values[X] = clade_input(g, "x", CLADE_F32, shape);
  const clade_val out = clade_nn_experts(g, "moe", values[X], .experts = l->experts, .hidden = l->hidden, .top = l->top,
                                         .capacity = l->capacity, .balance = &unevenly);
  for (int i = 0; i < count(l, X); i++) factors[i] = (float)factor(i);
  const clade_val weighted = clade_sum(g, clade_mul(g, out, clade_constant(g, CLADE_F32, shape, factors)));
  const clade_val loss = clade_add(g, weighted, clade_mul(g, unevenly, clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.5)));
  for (size_t i = 0; i < g->variables.count; i++)
    for (int v = 1; v < VALUES; v++)
      if (!strcmp(g->variables.at[i].name, names[v])) values[v] = clade__graph_val(g, g->variables.at[i].value);
  OK(clade_gradients(g, loss, (clade_val){0}, VALUES, values, gradients));
  clade_output(g, "y", out);
  clade_output(g, "uneven", unevenly);
  for (int v = 0; v < VALUES; v++) clade_output(g, (char[]){'d', (char)('0' + v), 0}, gradients[v]);
  OK(clade_compile(g, device, &func, .strict = true));
  OK(clade_vars_new(func, 1, &vars));
  for (int v = 1; v < VALUES; v++) OK(clade_vars_set(vars, names[v], given[v], (size_t)count(l, v) * sizeof(float)));
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", given[X], (size_t)count(l, X) * sizeof(float), NULL}), &ticket));
  OK(clade_read(run, ticket, "y", found, (size_t)count(l, X) * sizeof(float)));
  OK(clade_read(run, ticket, "uneven", &balance, sizeof balance));
  for (int i = 0; i < count(l, X); i++)
    if (!(fabs((double)found[i] - y[i]) <= 1e-4 * (1 + fabs(y[i]))))
      fail_msg("y[%d] is %g, expected %g", i, (double)found[i], y[i]);
  assert_true(fabs((double)balance - uneven) < 1e-5);
  assert_true(l->capacity >= 1 || lost > 0);
  for (int v = 0; v < VALUES; v++) {
    OK(clade_read(run, ticket, (char[]){'d', (char)('0' + v), 0}, found, (size_t)count(l, v) * sizeof(float)));
    for (int i = 0; i < count(l, v); i += 1 + count(l, v) / 23) {
      const float before = given[v][i], step = 1e-3f;
      given[v][i] = before + step;
      const double above = loss_of(l), by = (double)given[v][i];
      given[v][i] = before - step;
      const double slope = (above - loss_of(l)) / (by - (double)given[v][i]);
      given[v][i] = before;
      if (!(fabs((double)found[i] - slope) <= 2e-3 * (1 + fabs(slope))))
        fail_msg("the derivative by %s[%d] is %g, by differences %g", names[v], i, (double)found[i], slope);
    }
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
}

static void experts(void **state) {
  compare(&(layer){1, 7, 5, 3, 6, 1, 2}, *state, true);
  compare(&(layer){2, 9, 4, 3, 5, 2, 2}, *state, false);
  compare(&(layer){3, 8, 4, 4, 7, 1, 1.25f}, *state, false);
  compare(&(layer){1, 1, 3, 1, 2, 1, 1}, *state, true);
}

/* Some tokens find no room. */
static void full(void **state) {
  compare(&(layer){2, 12, 4, 3, 5, 1, 0.5f}, *state, false);
  compare(&(layer){2, 12, 4, 4, 5, 2, 0.5f}, *state, false);
}

static void refuses(const char *words, clade_status want, clade_shape shape, clade_dtype type,
                    const clade_experts_opt *opt) {
  clade_graph *g = graph_new();
  clade_experts_opt o = *opt;
  o.size = sizeof o;
  o.x = clade_input(g, "x", type, shape);
  clade_output(g, "y", clade_nn_experts_(g, "moe", &o));
  assert_int_equal(clade_graph_status(g), want);
  if (!strstr(clade_last_error(), words)) fail_msg("no \"%s\" in: %s", words, clade_last_error());
  clade_graph_release(g);
}

static void refusals(void **state) {
  (void)state;
  const clade_experts_opt good = {.experts = 4, .hidden = 8};
  clade_experts_opt o = good;
  refuses("x has 1 dimensions", CLADE_BAD_SHAPE, CLADE_SHAPE(4), CLADE_F32, &good);
  refuses("x has 4 dimensions", CLADE_BAD_SHAPE, CLADE_SHAPE(1, 2, 3, 4), CLADE_F32, &good);
  refuses("the symbol \"n\"", CLADE_BAD_SHAPE, CLADE_SHAPE(CLADE_DIM("n"), 4), CLADE_F32, &good);
  refuses("nn_experts \"moe\"", CLADE_DTYPE, CLADE_SHAPE(3, 4), CLADE_I32, &good);
  o.experts = 0;
  refuses(".experts is 0", CLADE_INVALID, CLADE_SHAPE(3, 4), CLADE_F32, &o);
  o = good, o.hidden = -1;
  refuses(".hidden -1", CLADE_INVALID, CLADE_SHAPE(3, 4), CLADE_F32, &o);
  o = good, o.top = 3;
  refuses(".top is 3", CLADE_INVALID, CLADE_SHAPE(3, 4), CLADE_F32, &o);
  o = good, o.top = 2, o.experts = 1;
  refuses(".top is 2 of 1", CLADE_INVALID, CLADE_SHAPE(3, 4), CLADE_F32, &o);
  o = good, o.capacity = -1;
  refuses(".capacity is -1", CLADE_INVALID, CLADE_SHAPE(3, 4), CLADE_F32, &o);
  o = good, o.capacity = NAN;
  refuses(".capacity is nan", CLADE_INVALID, CLADE_SHAPE(3, 4), CLADE_F32, &o);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(experts), cmocka_unit_test(full), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
