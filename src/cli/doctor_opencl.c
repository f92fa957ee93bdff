/* Checks of the doctor that need OpenCL: the loader, the platforms, and a kernel on each device. All run in child
 * processes, because an implementation may abort. */
#include "cli/doctor.h"

#include <signal.h>
#include <stdio.h>

enum { INSPECT_SECONDS = 120, PROBE_SECONDS = 180 };

static const char *text_of(const json_t *object, const char *name) {
  return json_string_value(json_object_get(object, name));
}
static long long number_of(const json_t *object, const char *name) {
  return (long long)json_integer_value(json_object_get(object, name));
}

/* Describes how a child ended: "was killed by signal 6 (Aborted): its last words". */
static void fate(const cli_child_result *child, char *text, size_t size) {
  char how[64];
  if (!child->started)
    snprintf(how, sizeof how, "did not start");
  else if (child->timed_out)
    snprintf(how, sizeof how, "did not end");
  else if (child->signal)
    snprintf(how, sizeof how, "was killed by signal %d (%s)", child->signal, strsignal(child->signal));
  else
    snprintf(how, sizeof how, "ended with status %d", child->status);
  snprintf(text, size, "%s%s%s", how, *child->words ? ": " : "", child->words);
}

/* Enumeration crashes the process: finds the libraries that crash alone. */
static bool find_culprits(json_t *checks, const json_t *libraries) {
  size_t i;
  const json_t *library;
  json_array_foreach(libraries, i, library) {
    char one[1024], text[700];
    snprintf(one, sizeof one, "OCL_ICD_VENDORS=%s", json_string_value(library));
    cli_child_result child;
    cli_child_run((const char *[]){"inspect", NULL}, one, INSPECT_SECONDS, &child);
    fate(&child, text, sizeof text);
    bool done =
        child.json || doctor_check(checks, "enumerate", json_string_value(library), false,
                                   "remove or mend that implementation; OCL_ICD_VENDORS=<an .icd file> uses "
                                   "another one alone",
                                   "a process that lists only the devices of %s %s", json_string_value(library), text);
    cli_child_free(&child);
    if (!done) return false;
  }
  return true;
}

static bool check_loader(json_t *checks, const json_t *report) {
  const char *path = text_of(report, "loader"), *error = text_of(report, "loader_error");
  if (!path)
    return doctor_check(checks, "loader", NULL, false, "apt install --no-install-recommends ocl-icd-libopencl1",
                        "there is no OpenCL loader: %s", error ? error : "libOpenCL.so.1 does not load");
  return doctor_check(checks, "loader", NULL, true, NULL, "the OpenCL loader is %s", path);
}

/* A platform without devices is no fault if another platform has some: many are installed without their hardware.
 * Other errors, and devices that were left out, are faults. */
static bool check_platform(json_t *checks, const json_t *platform, bool others) {
  const char *name = text_of(platform, "name"), *remedy = text_of(platform, "remedy");
  const char *why = text_of(platform, "message");
  long long devices = number_of(platform, "devices");
  bool ok = devices > 0 && !why, empty = !strcmp(text_of(platform, "error_name"), "CL_DEVICE_NOT_FOUND");
  if (empty && others)
    return doctor_note(checks, "platform", name, remedy ? remedy : "nothing to do, unless its device should be there",
                       "platform %s (%s) has no devices", name, text_of(platform, "version"));
  if (!why) why = text_of(platform, "error_name");
  if (!remedy) remedy = "if its device should be there, see the failed checks above; else remove the platform";
  return doctor_check(checks, "platform", name, ok, ok ? NULL : remedy, "platform %s (%s) has %lld device%s%s%s", name,
                      text_of(platform, "version"), devices, devices == 1 ? "" : "s", ok ? "" : ": ", ok ? "" : why);
}

static bool check_platforms(json_t *checks, const json_t *report) {
  const json_t *platforms = json_object_get(report, "platforms"), *platform;
  size_t i;
  if (!text_of(report, "loader")) return true;
  if (!json_array_size(platforms))
    return doctor_check(checks, "platforms", NULL, false, "apt install --no-install-recommends pocl-opencl-icd",
                        "no OpenCL platform: clGetPlatformIDs gives %s (%lld)", text_of(report, "platform_error_name"),
                        number_of(report, "platform_error"));
  const bool others = json_array_size(json_object_get(report, "devices")) > 0;
  json_array_foreach(platforms, i, platform) if (!check_platform(checks, platform, others)) return false;
  return true;
}

static bool wanted(const json_t *chosen, const char *id) {
  size_t i;
  const json_t *one;
  json_array_foreach(chosen, i, one) {
    const char *text = text_of(one, "id");
    if (text && !strcmp(text, id)) return true;
  }
  return !json_array_size(chosen);
}

static bool probe(json_t *checks, json_t *device, bool *right) {
  const char *id = text_of(device, "id"), *name = text_of(device, "name");
  cli_child_result child;
  cli_child_run((const char *[]){"probe", id, NULL}, NULL, PROBE_SECONDS, &child);
  char text[700];
  fate(&child, text, sizeof text);
  const char *error = text_of(child.json, "error");
  *right = child.json && !error && !child.signal && !child.status;
  bool done = *right
                  ? doctor_check(checks, "probe", id, true, NULL, "device %s, %s, computes the right answer", id, name)
                  : doctor_check(checks, "probe", id, false,
                                 "see the failed checks above; clade devices tells which driver this is",
                                 "device %s, %s, does not compute: %s", id, name, error ? error : text);
  cli_child_free(&child);
  return done && cli_json_set(device, "ok", json_boolean(*right));
}

static bool check_chosen(json_t *checks, const json_t *chosen) {
  size_t i;
  const json_t *one;
  json_array_foreach(chosen, i,
                     one) if (text_of(one, "error") && !doctor_check(checks, "device", text_of(one, "spec"), false,
                                                                     "clade devices lists what there is", "%s",
                                                                     text_of(one, "error"))) return false;
  return true;
}

static bool check_devices(json_t *checks, const json_t *report, json_t *devices, bool *ok) {
  const json_t *chosen = json_object_get(report, "chosen");
  json_t *device;
  size_t i;
  if (!check_chosen(checks, chosen)) return false;
  json_array_foreach(json_object_get(report, "devices"), i, device) {
    bool right = false;
    if (wanted(chosen, text_of(device, "id")) ? !probe(checks, device, &right)
                                              : !cli_json_set(device, "ok", json_null()))
      return false;
    if (json_array_append(devices, device)) return false;
    *ok |= right;
  }
  return true;
}

bool doctor_opencl(json_t *checks, const cli_args *args, const json_t *libraries, json_t *devices, bool *ok) {
  const char *arguments[CLI_MAX_DEVICES + 2] = {"inspect"};
  for (int i = 0; i < args->n_devices; ++i) arguments[i + 1] = args->device[i];
  cli_child_result child;
  cli_child_run(arguments, NULL, INSPECT_SECONDS, &child);
  char text[700];
  fate(&child, text, sizeof text);
  *ok = false;
  bool done;
  if (child.json)
    done = check_loader(checks, child.json) && check_platforms(checks, child.json) &&
           check_devices(checks, child.json, devices, ok);
  else
    done = doctor_check(checks, "enumerate", NULL, false, "see the other failed checks",
                        "a process that lists the devices %s", text) &&
           find_culprits(checks, libraries);
  cli_child_free(&child);
  return done;
}
