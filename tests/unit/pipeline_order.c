/* Partition of models and order of computation in pipelines: idle time, memory and refusals. */
#include "parallel/balance.h"
#include "parallel/passes.h"
#include "pipeline_kit.h"

enum { LONG = 512, LAYERS = 8 };

/* ---- partition of costs ---- */
static void balances(void **state) {
  const double costs[] = {1, 1, 4, 1, 1, 1, 1, 2}, none[8] = {0}, bytes[] = {0, 9, 9, 9, 9, 1, 9, 9};
  int piece[8];
  (void)state;
  OK(clade__balance(8, costs, none, 3, piece)); /* at most 6 each */
  double sum[3] = {0};
  for (int i = 0; i < 8; i++) {
    assert_true(i == 0 || piece[i] == piece[i - 1] || piece[i] == piece[i - 1] + 1);
    sum[piece[i]] += costs[i];
  }
  for (int k = 0; k < 3; k++) assert_true(sum[k] > 0 && sum[k] <= 5);
  OK(clade__balance(8, (double[]){1, 1, 1, 1, 0, 1, 1, 2}, bytes, 2, piece));
  /* Item 0 can be on either side: the least communication decides. */
  for (int i = 0; i < 8; i++) assert_int_equal(piece[i], i >= 5);
  OK(clade__balance(3, none, none, 3, piece));
  for (int i = 0; i < 3; i++) assert_int_equal(piece[i], i);
}

/* ---- passes ---- */
static void idles(void **state) {
  (void)state;
  for (int stages = 1; stages <= 6; stages++)
    for (int each = 1; each <= 3; each++)
      for (int shares = 1; shares <= 12; shares++) {
        clade__passes p;
        const clade__grid grid = {1, 1, stages, shares, each};
        OK(clade__passes_new(&grid, &p));
        const double busy = 3.0 * shares * each, idle = 1 - busy / p.end;
        const double least = (double)(stages - 1) / (each * shares + stages - 1);
        if (shares % stages == 0 || each == 1) assert_true(fabs(idle - least) < 1e-9);
        for (int s = 0; s < stages; s++) {
          int live = 0, most = 0;
          for (int i = 0; i < p.each; i++) {
            live += p.at[s * p.each + i].backward ? -1 : 1;
            most = CLADE_MAX(most, live);
          }
          assert_int_equal(live, 0);
          if (each == 1) assert_int_equal(most, CLADE_MIN(shares, stages - s));
        }
        clade__passes_free(&p);
      }
}

/* ---- stages, with one unit of time per product ---- */
/* Equal layers; the first one's input has a derivative as well. */
static clade_val even_layers(clade_graph *g, int share) {
  clade_val x = numbered_input(g, "x", share, CLADE_F32, CLADE_SHAPE(LONG, WIDTH));
  x = clade_add(g, x, clade_parameter(g, "shift", CLADE_F32, CLADE_SHAPE(WIDTH), (clade_initial){0}));
  for (int i = 0; i < LAYERS; i++) {
    char name[8];
    snprintf(name, sizeof name, "fc%d", i);
    x = clade_relu(g, clade_nn_linear(g, name, x, .out = WIDTH, .no_bias = true));
  }
  return clade_mean(g, x);
}

enum { MOST_NUMBERS = 1024, MOST_MESSAGES = MOST_NUMBERS * MOST * MOST };
typedef struct pipe_stage {
  clade_graph *g;
  int number;
  double *at;     /* by value: time at which it is available */
  double *posted; /* by received value: number of products before the receive was posted */
  clade__id next;
  double clock, busy;
} pipe_stage;

static int attr_of(const clade__node *n, const char *name) {
  for (const clade_attr *a = n->op->attrs; a && a->name; a++)
    if (!strcmp(a->name, name)) return *(const int32_t *)((const char *)n->attrs + a->offset);
  fail_msg("%s has no attribute %s", n->op->name, name);
  return 0;
}

static bool is_op(const clade__node *n, const char *name) { return !strcmp(n->op->name, name); }

static int message_of(const clade__node *n, int from, int to) {
  const int number = attr_of(n, "series");
  assert_in_range(number, 0, MOST_NUMBERS - 1);
  return (number * MOST + from) * MOST + to;
}

/* Runs until a needed message was not sent. `sent`: by message; negative: not sent. */
static bool go_on(pipe_stage *s, double *sent) {
  const clade__id first = s->next;
  for (; s->next < s->g->n_nodes; s->next++) {
    const clade__node *n = &s->g->nodes[s->next];
    double start = s->clock;
    if (is_op(n, "comm.receive")) { /* posted; its users wait */
      s->at[n->first_out] = -1 - message_of(n, attr_of(n, "peer"), s->number);
      s->posted[n->first_out] = s->busy;
      continue;
    }
    for (int i = 0; i < n->n_in; i++) {
      double *there = &s->at[n->in[i]];
      if (*there < 0) {
        const double arrival = sent[(int)(-1 - *there)];
        if (arrival < 0) return s->next != first;
        const bool ahead = s->posted[n->in[i]] == 0 || s->posted[n->in[i]] < s->busy;
        assert_true(ahead || clade__type(s->g, n->in[i])->shape.rank == 0); /* the transfer overlaps with a pass */
        *there = arrival;
      }
      if (!is_op(n, "assign")) start = fmax(start, *there);
    }
    if (is_op(n, "comm.send")) {
      sent[message_of(n, s->number, attr_of(n, "peer"))] = s->at[n->in[0]];
      continue;
    }
    const bool product = is_op(n, "gemm");
    if (product) s->clock = start + 1;
    s->busy += product;
    for (int i = 0; i < n->n_out; i++) s->at[n->first_out + (clade__id)i] = product ? s->clock : start;
  }
  return s->next != first;
}

static void simulate(int stages, int shares, int each, bool told) {
  const training t = {"even", even_layers, GRID(stages, shares, each), 0, SGD(), 0, 0};
  static double sent[MOST_MESSAGES];
  pipe_stage all[MOST];
  clade_comm *comms[MOST];
  double end = 0, busy = 0;
  bool moved = true;
  OK(clade_comm_new_local(stages, comms));
  for (int i = 0; i < MOST_MESSAGES; i++) sent[i] = -1;
  for (int s = 0; s < stages; s++) {
    all[s] = (pipe_stage){.number = s, .next = 1};
    OK(step_graph(&t, comms[s], &all[s].g));
    all[s].at = calloc(2 * all[s].g->n_values, sizeof *all[s].at);
    assert_non_null(all[s].at);
    all[s].posted = all[s].at + all[s].g->n_values;
  }
  while (moved) {
    moved = false;
    for (int s = 0; s < stages; s++) moved |= go_on(&all[s], sent);
  }
  for (int s = 0; s < stages; s++) {
    assert_int_equal(all[s].next, all[s].g->n_nodes); /* no stage is blocked */
    end = fmax(end, all[s].clock);
    busy += all[s].busy;
    clade_graph_release(all[s].g);
    free(all[s].at);
  }
  const double idle = 1 - busy / (end * stages), ideal = (double)(stages - 1) / (each * shares + stages - 1);
  assert_true(busy == 3.0 * LAYERS * shares);
  if (told)
    print_message("%d stages of %d pieces, %d micro-batches: idle %.3f, ideal %.3f\n", stages, each, shares, idle,
                  ideal);
  /* A stage sends a gradient before it computes its weight gradients, so it can be slightly better than ideal. */
  if (shares % stages == 0 || each == 1) assert_true(idle <= ideal + 1e-9);
  release_all(stages, comms);
}

static void overlaps(void **state) {
  (void)state;
  for (int stages = 2; stages <= 8; stages *= 2)
    for (int each = 1; each * stages <= 8; each *= 2)
      for (int shares = 1; shares <= 12; shares++) simulate(stages, shares, each, shares == stages || shares == 8);
}

/* ---- memory ---- */
enum { BROAD = 128 };
static clade_val broad_layers(clade_graph *g, int share) {
  clade_val x = numbered_input(g, "x", share, CLADE_F32, CLADE_SHAPE(ROWS, BROAD));
  for (int i = 0; i < LAYERS; i++) {
    char name[8];
    snprintf(name, sizeof name, "fc%d", i);
    x = clade_relu(g, clade_nn_linear(g, name, x, .out = BROAD, .no_bias = true));
  }
  return clade_mean(g, x);
}

static uint64_t peak(model_fn *model, int stages, int stage, int shares, clade_device *device) {
  const training t = {"peak", model, GRID(stages, shares, 1), 0, SGD(), 0, 0};
  clade_comm *comms[MOST];
  outcome out;
  OK(clade_comm_new_local(stages, comms));
  OK(train(&t, comms[stage], device, &out));
  clade_vars_release(out.vars);
  release_all(stages, comms);
  return out.bytes;
}

/* Activations of as many micro-batches as there are stages from this one on, and pairwise sums of gradients. */
static void keeps_few(void **state) {
  const uint64_t weights = 4 * WIDTH * WIDTH, activation = 4 * LONG * WIDTH;
  for (int stages = 2; stages <= 4; stages += 2)
    for (int s = 0; s < stages; s++) {
      const uint64_t few = peak(even_layers, stages, s, stages, *state);
      const uint64_t many = peak(even_layers, stages, s, 8, *state);
      print_message("stage %d of %d: %llu bytes with %d micro-batches, %llu with 8\n", s, stages,
                    (unsigned long long)few, stages, (unsigned long long)many);
      assert_true(many <= few + 2 * (weights * LAYERS / (uint64_t)stages + 1024));
      assert_true(few <= activation * (uint64_t)((stages - s) * (LAYERS / stages + 1) + 6));
    }
}

/* Gradients are accumulated early: those of a second micro-batch do not coexist with all of the first. */
static void adds_soon(void **state) {
  const uint64_t bytes = peak(broad_layers, 2, 0, 2, *state), weights = 4 * BROAD * BROAD * LAYERS / 2;
  print_message("weights of %llu bytes, at most %llu live\n", (unsigned long long)weights, (unsigned long long)bytes);
  assert_true(bytes <= weights * 3 / 2);
}

/* ---- explanation and refusals ---- */
static clade_val placed(clade_graph *g, int share) {
  clade_graph_place(g, 0);
  clade_val x = clade_nn_linear(g, "a", numbered_input(g, "x", share, CLADE_F32, CLADE_SHAPE(4, 8)), .out = 8);
  clade_graph_place(g, 1);
  return clade_mean(g, clade_nn_linear(g, "b", clade_nn_linear(g, "c", x, .out = 8), .out = 8));
}

static clade_val uneven(clade_graph *g, int share) {
  const clade_val x = numbered_input(g, "x", share, CLADE_F32, CLADE_SHAPE(4, 8));
  return clade_mean(g, share ? clade_softmax(g, x, -1) : clade_relu(g, x));
}

static clade_val short_one(clade_graph *g, int share) {
  return clade_mean(g, numbered_input(g, "x", share, CLADE_F32, CLADE_SHAPE(4, 8)));
}

static clade_status assign(model_fn *model, int built, const clade__grid *grid, clade__text *text) {
  clade_graph *whole = forward(model, built), *staged = NULL;
  OK(clade_graph_status(whole));
  const clade_status status = clade__stages_assign(whole, grid, 0, &staged, text);
  clade_graph_release(whole);
  clade_graph_release(staged);
  return status;
}

static void told(const char *text, const char *part) {
  if (!text || !strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text ? text : "");
}

static void tells(void **state) {
  clade__text text = {0};
  (void)state;
  OK(assign(placed, 2, &(clade__grid)GRID(2, 2, 1), &text));
  told(text.data, "2 pieces on 2 stages, 2 micro-batches, cut as clade_graph_place says");
  told(text.data, "piece 0 of stage 0: a");
  told(text.data, "piece 1 of stage 1: c to b");
  clade__text_free(&text);
  text = (clade__text){0};
  OK(assign(transformer, 2, &(clade__grid)GRID(2, 2, 2), &text));
  told(text.data, "4 pieces on 2 stages, 2 micro-batches, cut by estimated time");
  told(text.data, "piece 0 of stage 0: words to ");
  told(text.data, "parameter words.weight of piece 0 is sent to piece 3, and its gradient back");
  clade__text_free(&text);
}

static void refuses(void **state) {
  (void)state;
  refused(assign(placed, 2, &(clade__grid)GRID(3, 2, 1), NULL), CLADE_INVALID, "puts nothing into piece 2 of 3");
  refused(assign(placed, 2, &(clade__grid)GRID(1, 2, 1), NULL), CLADE_INVALID, "into piece 1; there are 1");
  refused(assign(uneven, 2, &(clade__grid)GRID(2, 2, 1), NULL), CLADE_INVALID, "all are to be built alike");
  refused(assign(mlp, 3, &(clade__grid)GRID(2, 2, 1), NULL), CLADE_INVALID, "is of micro-batch 2 of 2");
  refused(assign(mlp, 2, &(clade__grid)GRID(2, 3, 1), NULL), CLADE_INVALID, "nothing of micro-batch 2 of 3");
  refused(assign(short_one, 1, &(clade__grid)GRID(4, 1, 2), NULL), CLADE_INVALID,
          "4 stages of 2 pieces each: the model has");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(balances),  cmocka_unit_test(idles), cmocka_unit_test(overlaps), cmocka_unit_test(keeps_few),
      cmocka_unit_test(adds_soon), cmocka_unit_test(tells), cmocka_unit_test(refuses)};
  setenv("CLADE_PERSISTENT", "0", 1);
  return cmocka_run_group_tests(tests, open_device, close_device);
}
