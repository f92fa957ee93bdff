/* Answers which device wins, by what factor and how certain that is, from the rows of the document. */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"
#include "cli/compare/page.h"

const char *const compare_questions[] = {"latency at batch 1", "throughput", "energy per image", NULL};
enum { LATENCY, THROUGHPUT, ENERGY };
static const char *const measured = "measured";

/* A device's best row for a question: its cost (lower is better), with a range. */
typedef struct candidate {
  const char *device, *evidence;
  double cost, least, most;
} candidate;
typedef struct field {
  candidate at[CLI_MAX_DEVICES];
  int n;
  /* Devices were left out: functional-only ones; simulated ones whose fallback device is not counted. */
  bool functional, parts;
} field;

/* A row's cost for each image: seconds or joules. */
static bool candidate_of(const json_t *row, int question, candidate *out) {
  double batch = page_number(row, "batch");
  *out = (candidate){.device = page_string(row, "device"), .evidence = page_string(row, "evidence")};
  out->cost = page_number(row, "p50") / batch;
  out->least = page_number(row, "p50_least") / batch;
  out->most = page_number(row, "p50_most") / batch;
  if (question == ENERGY) out->cost = out->least = out->most = page_number(row, "joules") / batch;
  return out->cost > 0 && out->least > 0;
}

/* Whether a row answers the same question as the row `about`. */
static bool belongs(const json_t *row, const json_t *about, int question) {
  if (!page_same(page_string(row, "dtype"), page_string(about, "dtype"))) return false;
  if (question == LATENCY) return page_same(page_string(row, "work"), page_string(about, "work"));
  return page_same(page_string(row, "group"), page_string(about, "group")) &&
         page_same(page_string(row, "model"), page_string(about, "model"));
}

static void enter(field *f, const candidate *c) {
  int i = 0;
  while (i < f->n && !page_same(f->at[i].device, c->device)) i++;
  if (i == CLI_MAX_DEVICES || (i < f->n && f->at[i].cost <= c->cost)) return;
  f->at[i] = *c;
  if (i == f->n) f->n++;
}

static void gather(const json_t *rows, const json_t *about, int question, field *f) {
  const json_t *row;
  size_t i;
  candidate c;
  *f = (field){0};
  json_array_foreach(rows, i, row) {
    if (!belongs(row, about, question) || !candidate_of(row, question, &c)) continue;
    if (page_same(c.evidence, compare_evidence_names[COMPARE_FUNCTIONAL]))
      f->functional = true;
    else if (page_same(c.evidence, compare_evidence_names[COMPARE_SIMULATED]) && page_string(row, "fallback"))
      f->parts = true;
    else
      enter(f, &c);
  }
}

/* Moves the best and the second best candidate to the front. */
static void rank(field *f) {
  for (int place = 0; place < 2; place++)
    for (int i = place + 1; i < f->n; i++)
      if (f->at[i].cost < f->at[place].cost) {
        candidate c = f->at[i];
        f->at[i] = f->at[place];
        f->at[place] = c;
      }
}

static const char *left_out(const field *f) {
  if (f->functional && f->parts)
    return "functional-only devices take no part, nor do simulated ones, whose fallback devices are not counted";
  return f->functional ? "functional-only devices take no part"
                       : "simulated devices take no part, as their fallback devices are not counted";
}

static json_t *nobody(const char *question, const char *work, const field *f) {
  char sentence[400];
  bool all = !f->functional && !f->parts;
  snprintf(sentence, sizeof sentence, "%s, %s: %s%s%s%s", question, work,
           f->n ? "only one device has a figure that counts, " : "no device has a figure that counts",
           f->n ? f->at[0].device : "", all ? "" : "; ", all ? "" : left_out(f));
  return json_pack("{s:s, s:s, s:n, s:n, s:n, s:n, s:n, s:s, s:[], s:s}", "question", question, "work", work, "winner",
                   "second", "ratio", "least", "most", "sure", "open", "evidence", "text", sentence);
}

static int digits(double x) { return x >= 100 ? 0 : x >= 10 ? 1 : 2; }

static const char *certainty(double least) { return least > 1.1 ? "sure" : least > 1 ? "likely" : "open"; }

static json_t *decide(int question, const char *work, field *f) {
  const candidate *a = &f->at[0], *b = &f->at[1];
  char sentence[400];
  if (f->n < 2) return nobody(compare_questions[question], work, f);
  rank(f);
  double ratio = b->cost / a->cost, least = b->least / a->most, most = b->most / a->least;
  const char *sure = certainty(least);
  bool plain = page_same(a->evidence, measured) && page_same(b->evidence, measured), all = !f->functional && !f->parts;
  const char *tags[] = {plain ? "" : a->evidence, plain ? "" : b->evidence}, *open = plain ? "" : " [",
             *close = plain ? "" : "]";
  snprintf(sentence, sizeof sentence,
           "%s, %s: %s%s%s%s is %.*f times as %s as %s%s%s%s (between %.*f and %.*f): %s%s%s",
           compare_questions[question], work, a->device, open, tags[0], close, digits(ratio), ratio,
           question == ENERGY ? "economical" : "fast", b->device, open, tags[1], close, digits(least), least,
           digits(most), most, sure, all ? "" : "; ", all ? "" : left_out(f));
  return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:s, s:[s, s], s:s}", "question", compare_questions[question],
                   "work", work, "winner", a->device, "second", b->device, "ratio", ratio, "least", least, "most", most,
                   "sure", sure, "evidence", a->evidence, b->evidence, "text", sentence);
}

/* Whether a question is asked about a row: latency for each inference with batch 1; the other questions for each
 * network and group, where each device enters with its best batch. */
static bool asked(const json_t *rows, size_t at, int question) {
  const json_t *row = json_array_get(rows, at);
  if (json_is_null(json_object_get(row, "model"))) return false;
  if (question == LATENCY && (page_number(row, "batch") > 1 || !page_same(page_string(row, "group"), "infer")))
    return false;
  for (size_t i = 0; i < at; i++) /* an earlier row asked it */
    if (belongs(json_array_get(rows, i), row, question)) return false;
  return true;
}

json_t *compare_answers(const json_t *rows) {
  json_t *answers = json_array();
  char work[96], kind[16];
  field f;
  for (int question = 0; compare_questions[question]; question++)
    for (size_t i = 0; i < json_array_size(rows); i++) {
      const json_t *row = json_array_get(rows, i);
      if (!asked(rows, i, question)) continue;
      gather(rows, row, question, &f);
      bool usual =
          page_same(page_string(row, "dtype"), "f32") || strstr(page_string(row, "model"), page_string(row, "dtype"));
      snprintf(kind, sizeof kind, "%s%s", usual ? "" : ", ", usual ? "" : page_string(row, "dtype"));
      if (question == LATENCY)
        snprintf(work, sizeof work, "%s%s", page_string(row, "work"), kind);
      else
        snprintf(work, sizeof work, "%s %s%s", page_string(row, "model"), page_string(row, "group"), kind);
      json_array_append_new(answers, decide(question, work, &f));
    }
  return answers;
}
