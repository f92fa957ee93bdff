/* Runs a work on all opened devices: each device's result is checked first, then the devices take turns. A call
 * starts with operands in host memory and ends with the result in host memory. */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"

/* A turn is a few calls, or one long call. Turns go on until each device had enough turns or enough time. */
enum { TURN_CALLS = 25, TURNS = 8, MOST_PROFILED = 5, WORD = 4 };
static const double turn_seconds = 0.02, pause_seconds = 0.02;
static double most_seconds(const compare_job *job) { return job->quick ? 0.4 : 3; }
static int least_turns(const compare_job *job) { return job->quick ? 3 : 5; }
static int profiled(const compare_job *job) { return job->quick ? 3 : MOST_PROFILED; }

typedef struct parts {
  double in, kernels; /* seconds of one call, by the device's clock */
} parts;

/* A work, compiled for a device. */
typedef struct runner {
  const compare_data *data;
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  void *y; /* f32, or i32 for products of i8 */
  bool integers, exact;
  clade_ticket ticket;
  double programming, first, spent, moved;
  int calls, turns;
  double seconds[TURN_CALLS * TURNS];
  bench_stat turn[TURNS];
} runner;

static clade_status execute(runner *r) {
  clade_feed feeds[] = {{"x", r->data->x, r->data->x_bytes, NULL},
                        {"labels", r->data->labels, r->data->label_bytes, NULL}};
  return clade_execute(r->run, r->data->labels ? 2 : 1, feeds, &r->ticket);
}

static clade_status read_result(runner *r) {
  return clade_read(r->run, r->ticket, "y", r->y, r->data->y_elements * WORD);
}

static clade_status call(runner *r) {
  CLADE_TRY(execute(r));
  return read_result(r);
}

/* Inference uses the trained weights. */
static clade_status fill(runner *r, const compare_work *work, const compare_net *net) {
  CLADE_TRY(clade_vars_new(r->func, 1, &r->vars));
  return compare_classifies(work) ? compare_net_give(net, r->vars) : CLADE_OK;
}

/* prefer NULL: Clade chooses the implementations. fallback: device of all nodes but products; NULL: none. */
static clade_status prepare(runner *r, const compare_work *work, const compare_net *net, const compare_data *data,
                            clade_device *device, clade_device *fallback, const char *prefer) {
  r->data = data;
  r->exact = work->bytes;
  r->integers = work->bytes && !work->model;
  r->moved = (double)(data->x_bytes + data->label_bytes + data->y_elements * WORD);
  if (!(r->y = clade__new(data->y_elements, WORD))) return CLADE_NO_MEMORY;
  double start = clade__now();
  CLADE_TRY(compare_graph(work, net, &r->graph));
  CLADE_TRY(clade_compile(r->graph, device, &r->func, .prefer = prefer, .fallback = fallback,
                          .place = fallback ? "gemm=home" : NULL));
  r->programming = clade__now() - start;
  CLADE_TRY(fill(r, work, net));
  CLADE_TRY(clade_run_new(r->func, r->vars, &r->run, .slots = 1));
  start = clade__now();
  CLADE_TRY(call(r));
  r->first = clade__now() - start;
  return CLADE_OK;
}

static void finish(runner *r) {
  clade_run_free(r->run);
  clade_vars_release(r->vars);
  clade_func_release(r->func);
  clade_graph_release(r->graph);
  clade__free(r->y);
}

/* ---- checks ---- */
/* Largest allowed difference relative to the largest value, enough for rounding. i8 results must be equal. */
static const double right_enough = 1e-3;

static double result(const runner *r, size_t i) {
  return r->integers ? (double)((const int32_t *)r->y)[i] : (double)((const float *)r->y)[i];
}

static clade_status compare_results(const runner *r, const runner *reference, double *error) {
  double largest = 0, off = 0;
  for (size_t i = 0; i < r->data->y_elements; i++) {
    double is = result(r, i), should = result(reference, i);
    if (!isfinite(is)) return CLADE_FAIL(INTERNAL, "result %zu is %g", i, is);
    largest = fmax(largest, fabs(should));
    off = fmax(off, fabs(should - is));
  }
  *error = largest > 0 ? off / largest : off;
  if (*error <= (r->exact ? 0 : right_enough)) return CLADE_OK;
  return CLADE_FAIL(INTERNAL, "its results differ by up to %.2g of the largest from those of plain kernels", *error);
}

/* ---- accuracy ---- */
static bool is_right(const runner *r, int image, int32_t digit) {
  enum { CLASSES = 10 };
  const float *y = (const float *)r->y + (size_t)image * CLASSES;
  int best = 0;
  for (int c = 1; c < CLASSES; c++)
    if (y[c] > y[best]) best = c;
  return best == digit;
}

/* Classifies batch after batch; the last batch is filled up with images that are not counted again. */
static clade_status classify(runner *r, const compare_work *work, const compare_net *net, double *accuracy) {
  const compare_data *usual = r->data;
  compare_data images = *usual;
  int right = 0;
  size_t each = usual->x_bytes / (size_t)work->batch;
  int32_t *digit = clade__new((size_t)work->batch, sizeof *digit);
  images.x = clade__new(usual->x_bytes, 1);
  clade_status status = images.x && digit ? CLADE_OK : CLADE_NO_MEMORY;
  r->data = &images;
  for (int at = 0, n = (int)work->batch; at < COMPARE_IMAGES && status == CLADE_OK; at += n) {
    for (int i = 0; i < n; i++)
      digit[i] = compare_net_image(net, (at + i) % COMPARE_IMAGES, work->bytes, (char *)images.x + each * (size_t)i);
    status = call(r);
    for (int i = 0; i < n && at + i < COMPARE_IMAGES && status == CLADE_OK; i++) right += is_right(r, i, digit[i]);
  }
  *accuracy = (double)right / COMPARE_IMAGES;
  r->data = usual;
  clade__free(images.x);
  clade__free(digit);
  return status;
}

/* ---- energy: counters are updated in steps, so at least a second of calls is measured ---- */
static const double metered_seconds = 1;

static clade_status count_energy(runner *r, compare_meter *meter, compare_row *row) {
  if (!meter->by || !compare_meter_read(meter)) return CLADE_OK;
  double start = clade__now(), before = meter->joules;
  int calls = 0;
  for (; !calls || clade__now() - start < metered_seconds; calls++) CLADE_TRY(call(r));
  if (compare_meter_read(meter) && meter->joules > before) row->joules = (meter->joules - before) / calls;
  return CLADE_OK;
}

/* ---- parts of a call ---- */
static void observe(void *user, const clade_step_time *t) {
  parts *p = user;
  double seconds = 1e-9 * (double)(t->end_ns - t->start_ns);
  *(*t->kernel ? &p->kernels : &p->in) += seconds;
}

static clade_status profiled_calls(runner *r, int n, compare_row *row) {
  double in[MOST_PROFILED], kernels[MOST_PROFILED], out[MOST_PROFILED];
  parts p;
  CLADE_TRY(clade_run_observe(r->run, observe, &p));
  for (int i = 0; i < n; i++) {
    p = (parts){0};
    CLADE_TRY(execute(r));
    CLADE_TRY(clade_wait(r->run, r->ticket));
    double start = clade__now();
    CLADE_TRY(read_result(r));
    out[i] = clade__now() - start;
    in[i] = p.in;
    kernels[i] = p.kernels;
  }
  if (bench_stat_of(n, kernels).median <= 0) return CLADE_OK; /* the device has no profiling clock */
  row->transfer = bench_stat_of(n, in).median + bench_stat_of(n, out).median;
  row->compute = bench_stat_of(n, kernels).median;
  row->other = fmax(row->p50 - row->transfer - row->compute, 0);
  return CLADE_OK;
}

/* Energy and parts of a call. Profiling uses a run of its own, so the timed run is the one that users get. */
static clade_status take_apart(const compare_job *job, runner *r, compare_meter *meter, compare_row *row) {
  CLADE_TRY(count_energy(r, meter, row));
  clade_run_free(r->run);
  r->run = NULL;
  CLADE_TRY(clade_run_new(r->func, r->vars, &r->run, .slots = 1, .profile = true));
  return profiled_calls(r, profiled(job), row);
}

/* ---- turns ---- */
static bool done(const compare_job *job, const runner *r) {
  return r->turns >= TURNS || (r->turns >= least_turns(job) && r->spent >= most_seconds(job));
}

static clade_status turn(runner *r) {
  double before = r->spent, *mine = &r->seconds[r->calls];
  int n = 0;
  while (n < TURN_CALLS && r->spent - before < turn_seconds) {
    double start = clade__now();
    CLADE_TRY(call(r));
    r->spent += mine[n++] = clade__now() - start;
  }
  r->turn[r->turns++] = bench_stat_of(n, mine);
  r->calls += n;
  return CLADE_OK;
}

static void figures(runner *r, compare_row *row) {
  row->p50 = clade__median(r->seconds, r->calls); /* sorts */
  row->calls = r->calls;
  row->low = r->seconds[0];
  row->high = r->seconds[r->calls - 1];
  row->least = row->most = r->turn[0].median;
  for (int i = 1; i < r->turns; i++) {
    row->least = fmin(row->least, r->turn[i].median);
    row->most = fmax(row->most, r->turn[i].median);
  }
  row->p99 = r->seconds[(r->calls * 99 + 99) / 100 - 1];
  row->programming = r->programming;
  row->first = r->first;
  row->moved = r->moved;
}

void compare_refuse(compare_row *row) { snprintf(row->refused, sizeof row->refused, "%s", clade_last_error()); }

static void race(compare_job *job, runner *runners, compare_row *rows) {
  bool going = true;
  while (going) {
    going = false;
    for (int i = 0; i < job->n; i++) {
      runner *r = &runners[i];
      if (!r->run || *rows[i].refused || done(job, r)) continue;
      if (turn(r) != CLADE_OK) compare_refuse(&rows[i]);
      if (job->n > 1) bench_pause(pause_seconds);
      going = true;
    }
  }
}

static const char plain[] = "gemm=ref,conv2d=ref";

/* A simulation takes the same number of cycles each time: one call is counted, nothing is timed. */
static clade_status simulate(compare_side *side, runner *r, const compare_work *work, const compare_demand *demand,
                             compare_row *row) {
  side->kind->mark(side);
  CLADE_TRY(call(r));
  row->calls = 1;
  row->moved = r->moved;
  return side->kind->row(side, work, demand, row);
}

/* Bundles compute only products of i8, so i8 networks need a fallback device. */
static clade_device *fallback_of(const compare_job *job, const compare_side *side, const compare_work *work) {
  return work->model && work->bytes && !side->bench.info.compiler ? job->host : NULL;
}

static clade_status begin(const compare_job *job, compare_side *side, runner *r, const compare_work *work,
                          const runner *reference, const compare_demand *demand, compare_row *row) {
  clade_device_info info = {.size = sizeof info};
  clade_device *fallback = fallback_of(job, side, work);
  CLADE_TRY(prepare(r, work, job->net, reference->data, side->bench.device, fallback, NULL));
  CLADE_TRY(compare_side_ask(side));
  if (fallback) CLADE_TRY(clade_device_get_info(fallback, &info));
  row->fallback = info.name;
  CLADE_TRY(compare_results(r, reference, &row->error));
  if (compare_classifies(work)) CLADE_TRY(classify(r, work, job->net, &row->accuracy));
  if (!side->simulated) return CLADE_OK;
  clade_status status = simulate(side, r, work, demand, row);
  finish(r);
  *r = (runner){0}; /* simulated devices take no turns */
  return status;
}

static void measure(compare_job *job, const compare_work *work, const compare_demand *demand, const runner *reference,
                    runner *runners, compare_row *rows) {
  for (int i = 0; i < job->n; i++) {
    compare_side *side = &job->side[i];
    if (!side->modeled && compare_does(side, work) &&
        begin(job, side, &runners[i], work, reference, demand, &rows[i]) != CLADE_OK)
      compare_refuse(&rows[i]);
  }
  race(job, runners, rows);
  for (int i = 0; i < job->n; i++) {
    if (!runners[i].run || *rows[i].refused) continue;
    figures(&runners[i], &rows[i]);
    if (take_apart(job, &runners[i], &job->side[i].meter, &rows[i]) != CLADE_OK) compare_refuse(&rows[i]);
  }
}

clade_status compare_measure(compare_job *job, const compare_work *work, const compare_demand *demand,
                             compare_row rows[]) {
  compare_data data;
  runner *runners = clade__new((size_t)job->n + 1, sizeof *runners), *reference = runners + job->n;
  clade_status status = runners ? compare_data_new(work, &data) : CLADE_NO_MEMORY;
  if (status == CLADE_OK && !(status = prepare(reference, work, job->net, &data, job->host, NULL, plain)))
    measure(job, work, demand, reference, runners, rows);
  for (int i = 0; runners && i <= job->n; i++) finish(&runners[i]);
  if (runners) compare_data_free(&data);
  clade__free(runners);
  return status;
}
