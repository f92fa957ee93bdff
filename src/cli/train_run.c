/* run.json: the options of a run, kept in its checkpoint directory, so that --resume needs none of them again.
 * docs/formats.md specifies the file. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/train.h"

enum { LARGEST_FILE = 1 << 16 };

/* Options of a single invocation, and the directory itself, are not kept. */
static const char *const not_kept[] = {"checkpoint-dir", "resume",         "overwrite", "trace",
                                       "trace-steps",    "detect-anomaly", "tune",      "explain"};

static bool is_kept(const char *name) {
  for (size_t i = 0; i < CLADE_COUNT(not_kept); ++i)
    if (!strcmp(not_kept[i], name)) return false;
  return true;
}

static int find(const char *name) {
  const cli_option *options = train_description.options;
  for (int i = 0; options[i].name; ++i)
    if (!strcmp(options[i].name, name) || clade__is_old_name(options[i].name, name, strlen(name)))
      return is_kept(options[i].name) ? i : -1;
  return -1;
}

static clade_status path_of(const char *directory, char **out) {
  clade__text text = {0};
  clade__text_add(&text, "%s/run.json", directory);
  return clade__text_take(&text, out);
}

/* ---- reading ---- */
static clade_status wrong(const char *path, const char *name) {
  return CLADE_FAIL(CORRUPT, "%s: its option \"%.64s\" is none that clade train keeps, or of the wrong type", path,
                    name);
}

static clade_status take_devices(train_job *job, const char *path, const json_t *list) {
  const size_t n = json_array_size(list);
  if (!n || n > CLI_MAX_DEVICES) return wrong(path, "device");
  for (size_t i = 0; i < n; ++i)
    if (!json_is_string(json_array_get(list, i))) return wrong(path, "device");
  if (job->args.n_devices) return CLADE_OK;
  for (size_t i = 0; i < n; ++i) {
    const char *spec = json_string_value(json_array_get(list, i));
    cli_emulated(spec);
    job->args.device[job->args.n_devices++] = spec;
  }
  return CLADE_OK;
}

static bool is_of_devices(const char *name, const json_t *value) {
  return !strcmp(name, "split") && strcmp(json_string_value(value), "auto") != 0;
}

/* The command line takes precedence. Shares (--split) are dropped if other devices are given. */
static clade_status take_options(train_job *job, const char *path) {
  json_t *options = json_object_get(job->kept, "options"), *value;
  const char *name;
  const int given = job->args.n_devices;
  const bool other_devices = given && (size_t)given != json_array_size(json_object_get(options, "device"));
  if (!json_is_object(options) || json_integer_value(json_object_get(job->kept, "format")) != 1)
    return CLADE_FAIL(CORRUPT, "%s: it does not hold the options of a run, in format 1", path);
  json_object_foreach(options, name, value) {
    if (!strcmp(name, "device")) {
      CLADE_TRY(take_devices(job, path, value));
      continue;
    }
    const int i = find(name);
    const bool flag = i >= 0 && !train_description.options[i].argument;
    if (i < 0 || (flag ? !json_is_true(value) : !json_is_string(value))) return wrong(path, name);
    if (job->value[i] || (other_devices && is_of_devices(name, value))) continue;
    job->value[i] = flag ? "" : json_string_value(value);
    job->from_run[i] = true;
  }
  return CLADE_OK;
}

clade_status train_run_read(train_job *job, const char *directory) {
  clade__bytes file = {0};
  json_error_t error;
  char *path;
  CLADE_TRY(path_of(directory, &path));
  clade_status status = clade__file_read(path, LARGEST_FILE, &file);
  if (status == CLADE_NOT_FOUND) { /* a run of another program, or of an older version */
    clade__free(path);
    return CLADE_OK;
  }
  CLADE_GOTO(status);
  job->kept = clade__json_load(file.data, file.n, &error);
  CLADE_GOTO(job->kept ? CLADE_OK : CLADE_FAIL(CORRUPT, "%s: line %d: %s", path, error.line, error.text));
  CLADE_GOTO(take_options(job, path));
fail:
  clade__free(file.data);
  clade__free(path);
  return status;
}

/* ---- writing ---- */
/* Makes a path absolute, because the run may be resumed from another directory. prefix: length of a prefix such as
 * "npy:". */
static json_t *absolute(const char *text, size_t prefix) {
  char *here = text[prefix] == '/' ? NULL : getcwd(NULL, 0);
  json_t *value = here ? json_sprintf("%.*s%s/%s", (int)prefix, text, here, text + prefix) : json_string(text);
  free(here);
  return value;
}

static json_t *value_json(const train_job *job, int i) {
  const cli_option *option = &train_description.options[i];
  const char *value = job->value[i], *colon = strchr(value, ':');
  if (!option->argument) return json_true();
  if (!strcmp(option->name, "log-dir")) return absolute(value, 0);
  if (value == job->data && colon) return absolute(value, (size_t)(colon + 1 - value));
  return json_string(value);
}

static json_t *document(const train_job *job) {
  json_t *options = json_object(), *devices = json_array();
  for (int i = 0; train_description.options[i].name; ++i)
    if (job->value[i] && is_kept(train_description.options[i].name) &&
        !cli_json_set(options, train_description.options[i].name, value_json(job, i)))
      goto fail;
  for (int i = 0; i < job->args.n_devices; ++i)
    if (json_array_append_new(devices, json_string(job->args.device[i]))) goto fail;
  if (job->args.n_devices && json_object_set(options, "device", devices)) goto fail;
  json_decref(devices);
  return json_pack("{s:i, s:s, s:s, s:o}", "format", 1, "clade", clade_version(), "command", "train", "options",
                   options);
fail:
  json_decref(devices);
  json_decref(options);
  return NULL;
}

static clade_status write_file(const char *path, const char *text) {
  clade__draft draft;
  clade_status status;
  CLADE_TRY(clade__draft_open(path, &draft));
  CLADE_GOTO(clade__draft_write(&draft, text, strlen(text)));
  CLADE_GOTO(clade__draft_write(&draft, "\n", 1));
  CLADE_GOTO(clade__draft_sync(&draft));
  CLADE_GOTO(clade__draft_place(&draft));
fail:
  clade__draft_close(&draft);
  return status;
}

clade_status train_run_write(const train_job *job, const char *directory) {
  char *path = NULL, *text = NULL;
  json_t *json = document(job);
  clade_status status;
  if (!json) return CLADE_FAIL(INVALID, "%s: the run's options cannot be kept: some are no UTF-8", directory);
  CLADE_GOTO(path_of(directory, &path));
  CLADE_GOTO(clade__json_print(json, JSON_INDENT(2), &text));
  CLADE_GOTO(write_file(path, text));
fail:
  json_decref(json);
  clade__free(path);
  clade__free(text);
  return status;
}

/* ---- as a command line ---- */
void train_print_word(FILE *to, const char *word) {
  if (*word &&
      strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-") == strlen(word)) {
    fputs(word, to);
    return;
  }
  fputc('\'', to);
  for (; *word; ++word) fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, to);
  fputc('\'', to);
}

void train_print_options(const train_job *job) {
  for (int i = 0; i < job->args.n_devices; ++i) {
    fputs(" --device ", job->to);
    train_print_word(job->to, job->args.device[i]);
  }
  for (int i = 0; train_description.options[i].name; ++i) {
    if (!job->value[i] || !is_kept(train_description.options[i].name)) continue;
    fprintf(job->to, " --%s", train_description.options[i].name);
    if (!train_description.options[i].argument) continue;
    fputc(' ', job->to);
    train_print_word(job->to, job->value[i]);
  }
}
