/* Shared by the parts of `clade doctor`. A check is an object in the array `checks`: id, ok, note, message, remedy. */
#ifndef CLADE_DOCTOR_H
#define CLADE_DOCTOR_H

#include "cli/cli.h"

/* Adds a check; remedy is NULL if all is well. false: out of memory. */
bool doctor_check(json_t *checks, const char *id, const char *thing, bool ok, const char *remedy, const char *format,
                  ...) CLADE_PRINTF(6, 7);
/* Adds a hint that is no fault: a check with "ok" and "note" true and a suggestion. */
bool doctor_note(json_t *checks, const char *id, const char *thing, const char *remedy, const char *format, ...)
    CLADE_PRINTF(5, 6);

/* doctor_system.c: checks without OpenCL. */
bool doctor_vendors(json_t *checks, json_t *libraries); /* libraries: receives the names of libraries that load */
bool doctor_home(json_t *checks);
bool doctor_linker(json_t *checks);
bool doctor_dri(json_t *checks);
bool doctor_cache(json_t *checks);

/* doctor_opencl.c: checks that call OpenCL, in child processes. */
bool doctor_opencl(json_t *checks, const cli_args *args, const json_t *libraries, json_t *devices, bool *ok);

#endif
