/* Standard output for JSON only, and errors of writing to it. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static FILE *out;

/* Reported once, not for each line. */
static int cannot_write(int error) {
  static bool told;
  if (!told) cli_failed("cannot write to standard output%s%s", error ? ": " : "", error ? strerror(error) : "");
  told = true;
  return CLI_FAILED;
}

/* A closed standard output is an error only if something was written. */
static bool end(FILE *file) {
  errno = 0;
  if (ferror(file) || fflush(file)) return false;
  return !fclose(file) || errno == EBADF;
}

void cli_output_end(void) {
  if (!end(out ? out : stdout)) _exit(cannot_write(errno));
}

bool cli_json_begin(void) {
  fflush(stdout);
  int kept = dup(STDOUT_FILENO);
  if (kept < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || !(out = fdopen(kept, "w"))) {
    cli_failed("cannot set standard output aside for JSON: %s", strerror(errno));
    return false;
  }
  return true;
}

int cli_json_end(json_t *document) {
  json_t *whole = json_pack("{s:i}", "schema", 1);
  if (!whole || !document || json_object_update(whole, document))
    errno = ENOMEM;
  else
    errno = 0;
  bool written = !errno && !json_dumpf(whole, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) &&
                 fputc('\n', out) != EOF && !fflush(out);
  int error = errno;
  json_decref(whole);
  json_decref(document);
  return written ? CLI_DONE : cannot_write(error);
}

bool cli_json_line(json_t *object) {
  bool written = object && !json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) && fputc('\n', out) != EOF &&
                 !fflush(out);
  int error = errno;
  json_decref(object);
  if (!written) cannot_write(error);
  return written;
}

json_t *cli_json_text(const char *text) {
  if (!text) return json_null();
  json_t *value = json_string(text);
  if (value) return value;
  char *ascii = clade__copy_text(text);
  for (char *c = ascii; c && *c; ++c)
    if ((unsigned char)*c > 126 || (unsigned char)*c < 32) *c = '?';
  value = ascii ? json_string(ascii) : NULL;
  clade__free(ascii);
  return value;
}

bool cli_json_set(json_t *object, const char *name, json_t *value) {
  return value && !json_object_set_new(object, name, value);
}
