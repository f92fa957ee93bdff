/* Parses works, lines of "NAME key=value …", from the built-in sets and from --shapes FILE. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/bench/bench.h"

enum { MOST_SHAPES = 10000, LINE = 512, LARGEST_FILE = 1 << 20 };

static clade_status take_key(const char *source, int line, const bench_key *keys, char *word, bench_shape *shape,
                             unsigned *given) {
  char *equals = strchr(word, '='), *end;
  if (equals) *equals = 0;
  for (int i = 0; keys[i].name; i++) {
    if (strcmp(word, keys[i].name)) continue;
    errno = 0;
    long long value = equals ? strtoll(equals + 1, &end, 10) : 1;
    if (errno || (equals && (end == equals + 1 || *end)) || value < keys[i].low || value > keys[i].high)
      return CLADE_FAIL(INVALID, "%s, line %d: %s is %s; expected a whole number from %lld to %lld", source, line, word,
                        equals ? equals + 1 : "1", (long long)keys[i].low, (long long)keys[i].high);
    if (*given & 1u << i) return CLADE_FAIL(INVALID, "%s, line %d: %s is given twice", source, line, word);
    *given |= 1u << i;
    shape->value[i] = value;
    return CLADE_OK;
  }
  return CLADE_FAIL(INVALID, "%s, line %d: there is no key '%s'", source, line, word);
}

static clade_status take_line(const char *source, int line, char *text, const bench_key *keys, bench_shapes *out) {
  char *rest = NULL, *word;
  unsigned given = 0;
  text[strcspn(text, "#")] = 0;
  if (!(word = strtok_r(text, " \t\r", &rest))) return CLADE_OK;
  if (out->count == MOST_SHAPES) return CLADE_FAIL(INVALID, "%s: more than %d shapes", source, MOST_SHAPES);
  if (strlen(word) >= sizeof out->at->name || strchr(word, '='))
    return CLADE_FAIL(INVALID, "%s, line %d: '%.60s' is no name; expected NAME key=value …", source, line, word);
  CLADE_TRY(clade__grow(&out->at, &out->capacity, out->count + 1, sizeof *out->at));
  bench_shape *shape = &out->at[out->count];
  memset(shape, 0, sizeof *shape);
  memcpy(shape->name, word, strlen(word) + 1);
  shape->source = source;
  shape->line = line;
  for (int i = 0; keys[i].name; i++) shape->value[i] = keys[i].unset;
  while ((word = strtok_r(NULL, " \t\r", &rest))) CLADE_TRY(take_key(source, line, keys, word, shape, &given));
  for (int i = 0; keys[i].name; i++)
    if (shape->value[i] < keys[i].low)
      return CLADE_FAIL(INVALID, "%s, line %d: %s has no %s=", source, line, shape->name, keys[i].name);
  out->count++;
  return CLADE_OK;
}

static clade_status parse(const char *source, const char *text, const bench_key *keys, bench_shapes *out) {
  char line[LINE];
  for (int number = 1; *text; number++) {
    size_t length = strcspn(text, "\n");
    if (length >= sizeof line) return CLADE_FAIL(INVALID, "%s, line %d: it is too long", source, number);
    memcpy(line, text, length);
    line[length] = 0;
    CLADE_TRY(take_line(source, number, line, keys, out));
    text += length + (text[length] == '\n');
  }
  return CLADE_OK;
}

static clade_status read_file(const char *path, const bench_key *keys, bench_shapes *out) {
  clade__bytes file;
  clade__text text = {0};
  CLADE_TRY(clade__file_read(path, LARGEST_FILE, &file));
  clade_status status = CLADE_OK;
  if (memchr(file.data, 0, file.n))
    status = CLADE_FAIL(INVALID, "%s holds a zero byte: not a list of shapes", path);
  else
    clade__text_add_bytes(&text, (const char *)file.data, file.n);
  clade__free(file.data);
  if (status == CLADE_OK && text.failed) status = CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = parse(path, text.data ? text.data : "", keys, out);
  clade__text_free(&text);
  CLADE_TRY(status);
  return out->count ? CLADE_OK : CLADE_FAIL(INVALID, "%s holds no shape: a line is NAME key=value …", path);
}

static clade_status unknown(const char *name, size_t length, const bench_shapes *shapes) {
  clade__text text = {0};
  char *names = NULL;
  for (size_t i = 0; i < shapes->count; i++) clade__text_add(&text, "%s%s", i ? ", " : "", shapes->at[i].name);
  CLADE_TRY(clade__text_take(&text, &names));
  clade_status status =
      CLADE_FAIL(NOT_FOUND, "--only: there is no work '%.*s'; there are %s", (int)length, name, names);
  clade__free(names);
  return status;
}

/* Keeps the shapes named in a comma-separated list. */
static clade_status keep_only(const char *names, bench_shapes *out) {
  size_t kept = 0;
  for (const char *at = names; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
    size_t length = strcspn(at, ","), i = kept;
    while (i < out->count && (strncmp(out->at[i].name, at, length) || out->at[i].name[length])) i++;
    if (i == out->count) return unknown(at, length, out);
    bench_shape found = out->at[i];
    out->at[i] = out->at[kept];
    out->at[kept++] = found;
  }
  out->count = kept;
  return kept ? CLADE_OK : CLADE_FAIL(INVALID, "--only names no work");
}

clade_status bench_shapes_of(const bench_job *job, bench_shapes *out) {
  const bench_set *set = job->group->sets;
  while (!job->shapes && job->set && strcmp(set->name, job->set)) set++; /* it exists: bench_check_options */
  CLADE_TRY(job->shapes ? read_file(job->shapes, job->group->keys, out)
                        : parse(set->name, set->lines, job->group->keys, out));
  return job->only ? keep_only(job->only, out) : CLADE_OK;
}

char *bench_shape_text(const bench_shape *shape, const bench_key *keys, char *text, size_t size) {
  size_t at = 0;
  *text = 0;
  for (int i = 0; keys[i].name && at < size; i++)
    if (shape->value[i] != keys[i].unset)
      at +=
          (size_t)snprintf(text + at, size - at, "%s%s=%lld", at ? " " : "", keys[i].name, (long long)shape->value[i]);
  return text;
}

void bench_shapes_free(bench_shapes *shapes) {
  clade__free(shapes->at);
  *shapes = (bench_shapes){0};
}
