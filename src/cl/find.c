/* Device selection: resolves [text|index][:cpu|gpu|accel][:n]. */
#include "cl/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { SPEC_BYTES = 512 };

typedef struct spec {
  char text[SPEC_BYTES];           /* "": any device */
  long index;                      /* -1: select by text */
  clade_device_class device_class; /* 0: any class */
  long nth;                        /* -1: not given */
} spec;

/* Parses a decimal number; -1 for anything else. */
static long number(const char *text) {
  if (!*text) return -1;
  for (const char *c = text; *c; c++)
    if (!isdigit((unsigned char)*c)) return -1;
  errno = 0;
  long value = strtol(text, NULL, 10);
  return errno ? -1 : value;
}

static clade_device_class class_of(const char *text) {
  for (int c = CLADE_CPU; c <= CLADE_ACCEL; c++)
    if (strcasecmp(text, clade_device_class_name((clade_device_class)c)) == 0) return (clade_device_class)c;
  return 0;
}

/* Parses from the right, because device names may contain colons. */
static clade_status parse(const char *function, const char *text, int count, spec *out) {
  *out = (spec){.index = -1, .nth = -1};
  if (strlen(text) >= SPEC_BYTES)
    return CLADE_FAIL(INVALID, "%s: a device spec of %zu bytes; at most %d are expected", function, strlen(text),
                      SPEC_BYTES - 1);
  memcpy(out->text, text, strlen(text) + 1);
  char *colon = strrchr(out->text, ':');
  if (colon && number(colon + 1) >= 0) {
    out->nth = number(colon + 1);
    *colon = '\0';
    colon = strrchr(out->text, ':');
  }
  if (colon && class_of(colon + 1)) {
    out->device_class = class_of(colon + 1);
    *colon = '\0';
  }
  long index = number(out->text); /* larger numbers are part of a name, such as "4090" */
  if (index < count) out->index = index;
  return CLADE_OK;
}

static bool fits(const spec *s, int index, const clade_device_info *info) {
  bool match;
  if (s->device_class && s->device_class != info->device_class) return false;
  if (s->index >= 0) return s->index == index;
  if (clade__alias(s->text, info, &match)) return match;
  return strcasestr(info->name, s->text) || strcasestr(info->platform, s->text);
}

/* ---- error messages for no match and for several matches ---- */
static void add_candidate(clade__text *text, const clade_device_info *info, const char *before) {
  clade__text_add(text, "%s%s \"%s\" (%s, %s)", before, info->id, info->name,
                  clade_device_class_name(info->device_class), info->platform);
}

static void add_left_out(clade__text *text, const clade__list *list) {
  const char *before = "; left out: ";
  if (list->error) {
    clade__text_add(text, "; clGetPlatformIDs: %s (%d): %s", clade__cl_error_name(list->error), (int)list->error,
                    clade__cl_error_text(list->error));
  }
  for (int i = 0; i < list->n_platforms; i++) {
    const clade__platform_report *p = &list->platforms[i];
    if (!p->message) continue;
    clade__text_add(text, "%splatform \"%s\": %s", before, p->name, p->message);
    before = ", ";
  }
}

/* Lists all devices if `which` is NULL. */
static clade_status refuse(clade_status status, const char *function, const char *what, const clade__list *list,
                           const spec *which) {
  clade__text text = {0};
  char *all;
  const char *before = "";
  for (int i = 0; i < list->n; i++) {
    if (which && !fits(which, i, &list->at[i].facts.info)) continue;
    add_candidate(&text, &list->at[i].facts.info, before);
    before = ", ";
  }
  if (list->n == 0) clade__text_add(&text, "none at all (clade doctor tells what is missing)");
  if (!which) add_left_out(&text, list);
  CLADE_TRY(clade__text_take(&text, &all));
  clade_fail(status, "%s: %s: %s", function, what, all);
  clade__free(all);
  return status;
}

static clade_status by_spec(const char *function, const char *given, const char *from, clade__list *list,
                            clade__entry **out) {
  spec s;
  char what[SPEC_BYTES + 128];
  int fitting = 0;
  CLADE_TRY(parse(function, given, list->n, &s));
  for (int i = 0; i < list->n; i++) {
    if (!fits(&s, i, &list->at[i].facts.info)) continue;
    if (s.nth < 0 || fitting == s.nth) *out = &list->at[i];
    fitting++;
  }
  if (fitting == 0) {
    snprintf(what, sizeof what, "no device matches \"%s\"%s; the devices are", given, from);
    return refuse(CLADE_NOT_FOUND, function, what, list, NULL);
  }
  if (s.nth >= fitting) {
    snprintf(what, sizeof what, "\"%s\"%s asks for match %ld, counted from 0, of %d", given, from, s.nth, fitting);
    return refuse(CLADE_NOT_FOUND, function, what, list, &s);
  }
  if (s.nth >= 0 || fitting == 1) return CLADE_OK;
  snprintf(what, sizeof what, "%d devices match \"%s\"%s; add :0, :1, … or take an index", fitting, given, from);
  return refuse(CLADE_AMBIGUOUS, function, what, list, &s);
}

/* ---- the default device ---- */
static bool computes(clade__entry *entry) {
  clade_device *device;
  bool right = clade__device_open(entry, &device) == CLADE_OK;
  if (right) {
    right = clade__device_probe(device) == CLADE_OK;
    clade_device_release(device);
  }
  if (!right)
    clade__log(CLADE_LOG_WARNING, "device %s \"%s\" is passed over: %s", entry->facts.info.id, entry->facts.info.name,
               clade_last_error());
  return right;
}

static clade_status by_rule(const char *function, clade__list *list, clade__entry **out) {
  clade__entry *cpu = NULL, *preferred = NULL;
  for (int i = 0; i < list->n; i++) {
    clade__entry *entry = &list->at[i];
    const clade_device_info *info = &entry->facts.info;
    if (info->device_class == CLADE_GPU && !info->software && computes(entry)) {
      *out = entry;
      return CLADE_OK;
    }
    if (info->device_class != CLADE_CPU || info->software) continue;
    if (!cpu) cpu = entry;
    if (!preferred && clade__cpu_preferred(info)) preferred = entry;
  }
  *out = preferred ? preferred : cpu;
  if (*out) return CLADE_OK;
  return refuse(CLADE_NOT_FOUND, function, "no GPU that computes and no CPU; name one of these devices", list, NULL);
}

clade_status clade_device_find(const char *text, clade_device **out) {
  const char *function = "clade_device_find", *from = "";
  clade__list *list;
  clade__entry *entry = NULL;
  if (!out) return CLADE_FAIL(INVALID, "%s: out is NULL", function);
  *out = NULL;
  CLADE_TRY(clade__list_get(function, &list));
  if (!text) {
    text = getenv("CLADE_DEVICE");
    if (text && !*text) text = NULL;
    from = " (CLADE_DEVICE)";
  }
  CLADE_TRY(text ? by_spec(function, text, from, list, &entry) : by_rule(function, list, &entry));
  return clade__device_open(entry, out);
}
