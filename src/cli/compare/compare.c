/* clade bench compare: options, the loop over works, and the document. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"
#include "cli/compare/page.h"

enum { QUICK, HTML, ANSWER, ONLY };
static const cli_option options[] = {
    [QUICK] = {"quick", NULL, "smaller works and fewer calls: a minute or two"},
    [HTML] = {"html", "FILE", "also write an HTML page, a single file"},
    [ANSWER] = {"answer", "QUESTION",
                "print only this answer: \"latency at batch 1\", throughput or \"energy per image\""},
    [ONLY] = {"only", "NAMES", "only these works, comma-separated: gemm, i8, conv, infer, train, lenet5 or resnet18"},
    {0},
};
static const cli_args description = {
    .command = "bench compare",
    .synopsis = "",
    .about = "Runs the same works on several devices and tells how each figure was obtained.",
    .device_help = "device to compare; may be repeated (unset: CLADE_DEVICE, or the best)",
    .many_devices = true,
    .options = options,
};

static const char *const kinds[] = {"gemm", "i8", "conv", "infer", "train", "lenet5", "resnet18", NULL};

static bool is_among(const char *name, size_t length, const char *const names[]) {
  for (; *names; names++)
    if (strlen(*names) == length && !strncmp(*names, name, length)) return true;
  return false;
}

static bool is_in(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strcspn(at, ",") == length && !strncmp(at, name, length)) return true;
  return false;
}

static int check(const compare_job *job) {
  if (job->answer && !is_among(job->answer, strlen(job->answer), compare_questions))
    return cli_wrong(&job->args, "--answer %s: expected \"latency at batch 1\", throughput or \"energy per image\"",
                     job->answer);
  for (const char *at = job->only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (!is_among(at, strcspn(at, ","), kinds))
      return cli_wrong(
          &job->args,
          "--only %s: expected some of gemm, i8, conv, infer, train, lenet5 and resnet18, with commas between",
          job->only);
  return CLI_DONE;
}

static int parse(compare_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) switch (next) {
    case QUICK: job->quick = true; break;
    case HTML: job->html = value; break;
    case ANSWER: job->answer = value; break;
    case ONLY: job->only = value; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  return check(job);
}

static clade_status open_all(compare_job *job) {
  static const char *const unset = "default";
  bench_watch(&job->watcher);
  for (; job->n < CLADE_MAX(job->args.n_devices, 1); job->n++) {
    compare_side *side = &job->side[job->n];
    clade_status status = compare_side_open(job->args.n_devices ? job->args.device[job->n] : NULL, side);
    if (status != CLADE_OK) compare_side_close(side);
    CLADE_TRY(status);
    if (!side->spec) side->spec = unset;
    for (int i = 0; i < job->n; i++)
      if (strcmp(job->side[i].spec, side->spec) == 0) {
        compare_side_close(side);
        return CLADE_FAIL(DUPLICATE, "--device %s is given twice", side->spec);
      }
    if (!side->modeled && !job->host) CLADE_TRY(clade_device_find("cpu:0", &job->host));
  }
  return CLADE_OK;
}

static clade_status one(compare_job *job, const compare_work *work) {
  compare_row rows[CLI_MAX_DEVICES];
  compare_demand demand = {0};
  clade_graph *graph = NULL;
  for (int i = 0; i < job->n; i++) {
    rows[i] = (compare_row){0};
    for (size_t k = 0; k < CLADE_COUNT(rows[i].figures); k++) rows[i].figures[k] = NAN;
  }
  clade_status status = CLADE_OK;
  if (compare_classifies(work) && !job->net) status = compare_net_new(job->host, &job->net);
  if (status == CLADE_OK) status = compare_graph(work, job->net, &graph);
  if (status == CLADE_OK) demand = compare_demand_of(graph);
  for (int i = 0; i < job->n && status == CLADE_OK; i++)
    if (job->side[i].modeled && compare_does(&job->side[i], work) &&
        job->side[i].kind->row(&job->side[i], work, &demand, &rows[i]) != CLADE_OK)
      compare_refuse(&rows[i]);
  if (status == CLADE_OK && job->host) status = compare_measure(job, work, &demand, rows);
  for (int i = 0; i < job->n && status == CLADE_OK; i++) {
    if (!compare_does(&job->side[i], work)) continue;
    json_t *row = compare_row_json(&job->side[i], work, &demand, &rows[i]);
    if (json_array_append(job->rows, row)) status = CLADE_NO_MEMORY;
    if (status == CLADE_OK) compare_show_row(job, row);
    json_decref(row);
  }
  clade_graph_release(graph);
  return status;
}

static bool wanted(const compare_job *job, const compare_work *work) {
  if (job->quick && !work->quick) return false;
  return !job->only || is_in(job->only, work->group) || (work->bytes && is_in(job->only, "i8")) ||
         (work->model && is_in(job->only, work->model));
}

static clade_status all(compare_job *job) {
  char name[80];
  for (size_t i = 0; i < compare_work_count(); i++) {
    const compare_work *work = &compare_works[i];
    if (!wanted(job, work)) continue;
    clade_status status = one(job, work);
    compare_work_name(work, name, sizeof name);
    if (status != CLADE_OK) return clade__fail_in(status, "%s", name);
  }
  return CLADE_OK;
}

static json_t *document_of(const compare_job *job) {
  json_t *devices = json_array();
  for (int i = 0; i < job->n; i++) json_array_append_new(devices, compare_side_json(&job->side[i]));
  return json_pack("{s:o, s:b, s:o, s:O, s:o}", "machine", bench_machine_json(&job->watcher), "quick", job->quick,
                   "devices", devices, "rows", job->rows, "answers", compare_answers(job->rows));
}

static int write_page(const compare_job *job, const json_t *document) {
  FILE *file = fopen(job->html, "w");
  if (!file) return cli_failed("%s cannot be written: %s", job->html, strerror(errno));
  bool written = compare_html(document, file);
  if (fclose(file) || !written) return cli_failed("%s cannot be written: %s", job->html, strerror(errno));
  return CLI_DONE;
}

static int report(const compare_job *job) {
  json_t *document = document_of(job);
  int result = document ? CLI_DONE : cli_failed("no memory for the document");
  if (!result) compare_show_answers(job, json_object_get(document, "answers"));
  if (!result && job->html) result = write_page(job, document);
  if (!result && job->args.json) return cli_json_end(document);
  json_decref(document);
  return result;
}

int cli_compare(int argc, char **argv) {
  compare_job job = {.args = description, .to = stdout};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if (job.html && (result = cli_check_output(&job.args, "--html", job.html, 0, NULL))) return result;
  if (job.html && !cli_can_write(job.html)) return CLI_FAILED;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  if (job.args.json) job.to = stderr;
  job.rows = json_array();
  clade_status status = open_all(&job);
  if (status == CLADE_OK) compare_show_devices(&job);
  if (status == CLADE_OK) status = all(&job);
  result = status == CLADE_OK ? report(&job) : cli_failed_status(status);
  json_decref(job.rows);
  for (int i = 0; i < job.n; i++) compare_side_close(&job.side[i]);
  compare_net_free(job.net);
  clade_device_release(job.host);
  return result;
}
