/* Profiles of a run: times of its steps, reported to an observer and written as a Chrome trace. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/run.h"
#include "plan/trace.h"

enum { LEAST_RING = 4096, MOST_RING = 1 << 18, RING_EXECUTIONS = 64 };

clade_status clade__profile_new(clade_run *run) {
  const size_t one = run->n_times + run->func->n_hosts;
  run->ring_size = CLADE_MIN(CLADE_MAX(one * RING_EXECUTIONS, (size_t)LEAST_RING), (size_t)MOST_RING);
  run->ring_size = CLADE_MAX(run->ring_size, one); /* room for at least one execution */
  run->ring = clade__new(run->ring_size, sizeof *run->ring);
  if (!run->ring) return CLADE_NO_MEMORY;
  for (int s = 0; s < run->n_slots; s++)
    if (!(run->slots[s].times = clade__new(run->n_times, sizeof(cl_event)))) return CLADE_NO_MEMORY;
  return CLADE_OK;
}

static const char *name_of(const clade_run *run, const clade__cmd *cmd) {
  const clade_func *func = run->func;
  if (cmd->step < 0) return func->graph->inputs.at[cmd->port].name;
  const clade__fstep *step = &func->steps[cmd->step];
  if (!step->node) return "copy";
  const clade__node *node = &func->graph->nodes[step->node];
  return *node->name ? node->name : node->op->name;
}

static const char *kernel_of(const clade_run *run, const clade__cmd *cmd) {
  return cmd->kind == CLADE__CMD_LAUNCH || cmd->kind == CLADE__CMD_LIBRARY ? run->func->steps[cmd->step].launch->kernel
                                                                           : "";
}

static clade_step_time *next_in_ring(clade_run *run) { return &run->ring[run->ring_count++ % run->ring_size]; }

/* Adds the work of a host step, which began when the inputs had arrived, at the end of `sent`. */
static void add_hosted(clade_run *run, const clade__slot *slot, const clade__cmd *cmd, const clade_step_time *sent) {
  const clade__hosted *h = &slot->hosts[cmd->port];
  if (cmd->kind != CLADE__CMD_SEND || h->stage != CLADE__HOST_ENDED || !run->func->steps[cmd->step].launch) return;
  clade_step_time *t = next_in_ring(run);
  *t = *sent;
  t->host = 1;
  t->start_ns = sent->end_ns;
  t->end_ns = t->start_ns + (uint64_t)((h->ended - h->begun) * 1e9);
}

/* Collects the times of a lane's commands; the error of an event without times is kept for clade_run_trace. */
static void collect_lane(clade_run *run, clade__slot *slot, const clade__lane *lane) {
  const clade__cmd *cmds = lane->cmds[slot - run->slots];
  for (size_t i = 0; i < lane->n_cmds; i++) {
    cl_event *event = &slot->times[lane->first_time + i];
    clade__event_times t;
    if (!*event) continue;
    clade_status status = clade__event_profile(lane->device, *event, &t);
    clade__event_release(*event);
    *event = NULL;
    if (status != CLADE_OK) {
      run->profile_status = status;
      continue;
    }
    const clade_step_time time = {.size = sizeof(clade_step_time),
                                  .ticket = run->serial | slot->execution,
                                  .step = cmds[i].step,
                                  .name = name_of(run, &cmds[i]),
                                  .kernel = kernel_of(run, &cmds[i]),
                                  .queued_ns = t.queued,
                                  .submitted_ns = t.submitted,
                                  .start_ns = t.start,
                                  .end_ns = t.end,
                                  .device = (int)(lane - run->lanes)};
    *next_in_ring(run) = time;
    add_hosted(run, slot, &cmds[i], &time);
  }
}

void clade__profile_collect(clade_run *run, clade__slot *slot) {
  run->ring_first = run->ring_count;
  for (int l = 0; l < run->n_lanes; l++) collect_lane(run, slot, &run->lanes[l]);
}

void clade__profile_observe(clade_run *run) {
  for (uint64_t i = run->ring_first; i < run->ring_count; i++)
    run->observer(run->observer_user, &run->ring[i % run->ring_size]);
}

/* ---- Chrome trace ---- */
static void add_quoted(clade__text *out, const char *text) {
  clade__text_add(out, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      clade__text_add(out, "\\%c", c);
    else if (c < 0x20)
      clade__text_add(out, "\\u%04x", c);
    else
      clade__text_add_bytes(out, text, 1);
  }
  clade__text_add(out, "\"");
}

static const char *impl_of(const clade_run *run, const clade_step_time *t) {
  if (t->step < 0 || !run->func->steps[t->step].node) return "";
  const clade__node *node = &run->func->graph->nodes[run->func->steps[t->step].node];
  return node->impl >= 0 ? clade__impls(node->op)[node->impl]->name : "";
}

/* Rows: the device's queue, its input queue, its other queues, and one per host step, since these overlap. */
enum { HOST_ROWS = 1000 };
static int row_of(const clade_run *run, const clade_step_time *t) {
  if (t->step < 0) return 1;
  const clade__fstep *step = &run->func->steps[t->step];
  if (t->host) return HOST_ROWS + (int)step->host;
  int queue = step->kind == CLADE__FSTEP_KERNEL ? run->func->kernels[step->request].queue : 0;
  return queue ? queue + 1 : 0;
}

/* Times are in microseconds. */
static void add_event(const clade_run *run, int first, const clade_step_time *t, clade__text *out) {
  clade__text_add(out, ",\n{\"name\":");
  add_quoted(out, t->name);
  clade__text_add(out,
                  ",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,\"args\":{",
                  first + t->device, row_of(run, t), t->start_ns / 1000, (unsigned)(t->start_ns % 1000),
                  (t->end_ns - t->start_ns) / 1000, (unsigned)((t->end_ns - t->start_ns) % 1000));
  clade__text_add(out, "\"execution\":%" PRIu64 ",\"step\":%d,\"kernel\":", clade__ticket_execution(t->ticket),
                  t->step);
  add_quoted(out, t->kernel);
  clade__text_add(out, ",\"impl\":");
  add_quoted(out, impl_of(run, t));
  clade__text_add(out, "}}");
}

static void name_row(int process, int row, const char *name, clade__text *out) {
  clade__text_add(out, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", process,
                  row);
  add_quoted(out, name);
  clade__text_add(out, "}}");
}

static void name_host_rows(const clade_run *run, int first, clade__text *out) {
  char name[64];
  for (size_t i = 0; i < run->func->n_hosts; i++) {
    const clade__fstep *step = &run->func->steps[run->func->hosts[i]];
    if (!step->launch) continue;
    snprintf(name, sizeof name, "host: %s %zu", step->launch->kernel, i + 1);
    name_row(first + step->source_device, HOST_ROWS + (int)i, name, out);
  }
}

static uint64_t oldest(const clade_run *run) {
  return run->ring_count > run->ring_size ? run->ring_count - run->ring_size : 0;
}

/* ---- idle time of devices ---- */
typedef struct span {
  uint64_t from, to;
} span;

static int earlier(const void *a, const void *b) {
  const span *x = a, *y = b;
  return (x->from > y->from) - (x->from < y->from);
}

/* Share of the time from the first to the last step of a device in which it ran none. Transfers of inputs and the
 * host's part of host steps do not count as running; steps on several queues overlap. */
static clade_status idle_of(const clade_run *run, int device, double *idle) {
  const uint64_t first = oldest(run);
  uint64_t busy = 0, end = 0;
  size_t n = 0;
  span *all = clade__new((size_t)(run->ring_count - first), sizeof *all);
  *idle = 0;
  if (!all) return CLADE_NO_MEMORY;
  for (uint64_t i = first; i < run->ring_count; i++) {
    const clade_step_time *t = &run->ring[i % run->ring_size];
    if (t->device == device && t->step >= 0 && !t->host) all[n++] = (span){t->start_ns, t->end_ns};
  }
  qsort(all, n, sizeof *all, earlier);
  for (size_t i = 0; i < n; i++) {
    const uint64_t from = CLADE_MAX(all[i].from, end);
    if (all[i].to <= from) continue;
    busy += all[i].to - from;
    end = all[i].to;
  }
  if (n && end > all[0].from) *idle = 1 - (double)busy / (double)(end - all[0].from);
  clade__free(all);
  return CLADE_OK;
}

/* A label beside the device's name, and the same numbers for programs. */
static void add_idle(int process, const double *idle, int n, clade__text *out) {
  for (int l = 0; l < n; l++)
    clade__text_add(out,
                    ",\n{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"labels\":\"idle %.1f %%\"}}",
                    process + l, 100 * idle[l]);
  clade__text_add(out, "\n],\"otherData\":{\"idle\":[");
  for (int l = 0; l < n; l++) clade__text_add(out, "%s%.6f", l ? "," : "", idle[l]);
  clade__text_add(out, "]}}\n");
}

/* A process of the trace is a device; `process` is the number of the first one. */
static void add_all(const clade_run *run, int process, const double *idle, clade__text *out) {
  clade__text_add(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  for (int l = 0; l < run->n_lanes; l++) {
    clade__text_add(out, "%s{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":", l ? ",\n" : "",
                    process + l);
    add_quoted(out, clade__device_info(run->lanes[l].device)->name);
    clade__text_add(out, "}}");
    name_row(process + l, 0, "queue", out);
    name_row(process + l, 1, "inputs", out);
    for (int q = 1; run->lanes[l].spread && q < run->lanes[l].spread->n; q++) {
      char name[24];
      snprintf(name, sizeof name, "queue %d", q);
      if (run->lanes[l].spread->queues[q]) name_row(process + l, q + 1, name, out);
    }
  }
  name_host_rows(run, process, out);
  for (uint64_t i = oldest(run); i < run->ring_count; i++) add_event(run, process, &run->ring[i % run->ring_size], out);
  add_idle(process, idle, run->n_lanes, out);
}

static clade_status write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  if (!file) return CLADE_FAIL(IO, "clade_run_trace: %s: %s", path, strerror(errno));
  bool ok = fputs(text, file) >= 0;
  ok = fclose(file) == 0 && ok;
  return ok ? CLADE_OK : CLADE_FAIL(IO, "clade_run_trace: %s: %s", path, strerror(errno));
}

/* With the lock. */
static clade_status tell(const clade_run *run, int process, double *idle, clade__text *out) {
  double *each = clade__new((size_t)run->n_lanes, sizeof *each);
  clade_status status = each ? run->profile_status : CLADE_NO_MEMORY;
  if (each && status != CLADE_OK)
    status = CLADE_FAIL(UNSUPPORTED, "clade_run_trace: the queue keeps no times of its commands");
  for (int l = 0; l < run->n_lanes && status == CLADE_OK; l++) status = idle_of(run, l, &each[l]);
  if (status == CLADE_OK) add_all(run, process, each, out);
  if (status == CLADE_OK && idle) *idle = each[0];
  clade__free(each);
  return status;
}

clade_status clade__run_trace(clade_run *run, const char *path, int process, double *idle) {
  clade__text text = {0};
  char *json;
  if (!run || !path) return CLADE_FAIL(INVALID, "clade_run_trace: %s is NULL", run ? "the path" : "the run");
  if (!run->profile) return CLADE_FAIL(INVALID, "clade_run_trace: the run was made without .profile");
  clade_status status = clade_wait(run, 0);
  if (status != CLADE_OK) clade__log(CLADE_LOG_WARNING, "clade_run_trace: %s", clade_last_error());
  pthread_mutex_lock(&run->lock);
  status = tell(run, process, idle, &text);
  pthread_mutex_unlock(&run->lock);
  if (status != CLADE_OK) {
    clade__text_free(&text);
    return status;
  }
  CLADE_TRY(clade__text_take(&text, &json));
  status = write_file(path, json);
  clade__free(json);
  return status;
}

clade_status clade_run_trace(clade_run *run, const char *path) { return clade__run_trace(run, path, 0, NULL); }
