/* Times a func as a whole, as compiled before and with new records. The fastest choice for each problem need not be
 * the fastest in combination: estimates of conversions, or times of single problems, may be wrong. */
#include "plan/run.h"
#include "tune/internal.h"

/* ---- comparing choices ---- */
static bool same_node(const clade__node *a, const clade__node *b) {
  if (a->op != b->op || a->impl != b->impl || !a->config != !b->config) return false;
  return !a->config || !memcmp(a->config, b->config, CLADE_MAX_PARAMS * sizeof *a->config);
}

static bool same_choice(const clade_graph *a, const clade_graph *b) {
  bool same = a->n_nodes == b->n_nodes;
  for (clade__id id = 1; same && id < a->n_nodes; id++) same = same_node(&a->nodes[id], &b->nodes[id]);
  return same;
}

/* Whether the func has no side effects and may be executed for timing. */
static bool is_free(const clade_graph *g) {
  for (clade__id id = 1; id < g->n_nodes; id++)
    if ((g->nodes[id].op->flags & CLADE_OP_EFFECT) && g->nodes[id].op != &clade__op_assign) return false;
  return true;
}

/* ---- timing ---- */
enum { OLD, ALL, ROWS, CHOICES };
typedef struct whole {
  clade_func *func[CHOICES];    /* NULL: the same as another one */
  clade__records *set[CHOICES]; /* the records that produce the func */
  clade__trial run[CHOICES];
  size_t n;
  clade_feed *feeds;
  clade_vars *vars;
} whole;

static clade_status open_runs(whole *w) {
  const clade_graph *g = w->func[OLD]->graph;
  w->n = g->inputs.count;
  w->feeds = clade__new(w->n, sizeof *w->feeds);
  if (!w->feeds) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < w->n; i++) {
    clade_feed *feed = &w->feeds[i];
    void *data;
    feed->name = g->inputs.at[i].name;
    CLADE_TRY(clade__draw(clade__type(g, g->inputs.at[i].value), true, &data, &feed->bytes));
    feed->data = data;
  }
  CLADE_TRY(clade_vars_new(w->func[OLD], 1, &w->vars));
  for (int c = 0; c < CHOICES; c++) {
    w->run[c] = (clade__trial){.state = CLADE__TRIAL_RIGHT, .n_feeds = (int)w->n, .feeds = w->feeds};
    if (w->func[c]) CLADE_TRY(clade_run_new(w->func[c], w->vars, &w->run[c].run, .slots = 1));
  }
  return CLADE_OK;
}

static void close_runs(whole *w) {
  for (int c = 0; c < CHOICES; c++) clade_run_free(w->run[c].run);
  clade_vars_release(w->vars);
  for (size_t i = 0; w->feeds && i < w->n; i++) clade__free((void *)(uintptr_t)w->feeds[i].data);
  clade__free(w->feeds);
}

static clade_status race(whole *w, const clade__clock *clock, int *best) {
  clade__trial *all[CHOICES] = {&w->run[OLD], &w->run[ALL], &w->run[ROWS]};
  clade_status status = open_runs(w);
  if (status == CLADE_OK) status = clade__take_turns(all, CHOICES, 5, 10e-3, clock->deadline, clock);
  close_runs(w);
  *best = w->run[OLD].median > 0 ? OLD : ALL; /* without a time for OLD the budget is exhausted */
  for (int c = 0; c < CHOICES && status == CLADE_OK; c++)
    if (w->func[c] && w->run[c].median < w->run[*best].median) *best = c;
  return status;
}

/* ---- the records of a choice ---- */
/* Puts the node's record with the previous or the fastest configuration. */
static clade_status put_node(const clade_func *func, clade__id id, const clade__records *fresh, int choice,
                             clade__records *out) {
  const clade__node *node = &func->graph->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], results[CLADE_MAX_OPERANDS];
  clade_node view;
  clade__text problem = {0};
  if (!clade__needs_impl(node->op) || !clade__tunable(node->op, clade__device_info(func->devices[node->device])))
    return CLADE_OK;
  const clade_impl *impl = clade__impls(node->op)[node->impl];
  clade__node_view(func->graph, id, in, results, &view);
  clade__problem_text(&view, false, &problem);
  clade_status status = problem.failed ? CLADE_NO_MEMORY : CLADE_OK;
  clade__record own = {.op = node->op->name, .problem = problem.data, .impl = impl->name};
  clade__record_config(&own, impl, node->config);
  const clade__record *known = status ? NULL : clade__records_same(fresh, &own);
  if (known) {
    clade__record r = *known;
    if (choice == OLD) {
      clade__record_config(&r, impl, node->config);
      r.seconds = r.default_seconds = 0; /* no time, so that estimates decide among implementations */
    }
    status = clade__records_put(out, &r);
  }
  clade__text_free(&problem);
  return status;
}

static clade_status records_of(const clade_func *func, clade__records *fresh, int choice, clade__records **out) {
  *out = choice == ALL ? clade__records_retain(fresh) : NULL;
  if (*out) return CLADE_OK;
  CLADE_TRY(clade__records_new(&fresh->device, out));
  for (clade__id id = 1; id < func->graph->n_nodes; id++) CLADE_TRY(put_node(func, id, fresh, choice, *out));
  return CLADE_OK;
}

static clade_status compile(whole *w, int choice) {
  CLADE_TRY(clade__tuning_keep(w->func[OLD]->devices[0], w->set[choice]));
  CLADE_TRY(clade__compile_again(w->func[OLD], &w->func[choice]));
  for (int c = 0; c < choice; c++)
    if (w->func[choice] && w->func[c] && same_choice(w->func[c]->graph, w->func[choice]->graph)) {
      clade_func_release(w->func[choice]);
      w->func[choice] = NULL;
    }
  return CLADE_OK;
}

/* Without time or memory for the comparison, the problems' own times decide; after any other failure nothing
 * changes. */
static clade_status judge(whole *w, clade__records *fresh, clade__clock *clock, int *best) {
  *best = ALL;
  if (!clade__is_time(clock, clock->most)) return CLADE_OK;
  for (int c = 0; c < CHOICES; c++) CLADE_TRY(records_of(w->func[OLD], fresh, c, &w->set[c]));
  clade_status status = compile(w, ALL);
  if (status == CLADE_OK && !w->func[ALL]) return CLADE_OK; /* the new records choose the same */
  if (status == CLADE_OK && clade__is_time(clock, clock->most)) status = compile(w, ROWS);
  if (status == CLADE_OK) status = race(w, clock, best);
  if (status != CLADE_OK) *best = status == CLADE_DEVICE_MEMORY ? ALL : OLD;
  CLADE_TRY(clade__tuning_keep(w->func[OLD]->devices[0], w->set[*best]));
  return status;
}

clade_status clade__whole_judge(clade_func *func, clade__records *fresh, clade__clock *clock, clade_tune_row *row) {
  static const char *const names[CHOICES] = {"as it was", "by seconds measured", "by configurations measured"};
  whole w = {.func = {func}};
  int best;
  if (func->n_devices > 1 || !func->tuning || !is_free(func->graph)) return CLADE_OK;
  clade_status status = judge(&w, fresh, clock, &best);
  if (status == CLADE_DEVICE_MEMORY) {
    clade__log(CLADE_LOG_WARNING, "the func was not timed as a whole: %s", clade_last_error());
    status = CLADE_OK;
  } else if (status == CLADE_OK && w.func[ALL]) {
    row->before = names[OLD];
    row->after = names[best];
    row->before_seconds = w.run[OLD].median;
    row->after_seconds = w.run[best].median;
    row->candidates = 2 + (w.func[ROWS] != NULL);
  }
  for (int c = 0; c < CHOICES; c++) {
    if (c != OLD) clade_func_release(w.func[c]);
    clade__records_release(w.set[c]);
  }
  return status;
}
