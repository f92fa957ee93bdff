/* The parts of `clade doctor`. A check is an object of the array `checks`: id, ok, note, message,
 * remedy. */
#ifndef CLADE_DOCTOR_H
#define CLADE_DOCTOR_H

#include "cli/cli.h"

/* remedy NULL where all is well; false: no memory. */
bool doctor_check(json_t *checks, const char *id, const char *thing, bool ok, const char *remedy, const char *format,
                  ...) CLADE_PRINTF(6, 7);
/* What is worth knowing and harms nobody: "ok", with "note" true and what could be done. */
bool doctor_note(json_t *checks, const char *id, const char *thing, const char *remedy, const char *format, ...)
    CLADE_PRINTF(5, 6);

/* doctor_system.c: what can be told without OpenCL. */
bool doctor_vendors(json_t *checks, json_t *libraries); /* libraries: filled with the names of those that load */
bool doctor_home(json_t *checks);
bool doctor_linker(json_t *checks);
bool doctor_dri(json_t *checks);
bool doctor_cache(json_t *checks);

/* doctor_opencl.c: what only OpenCL can tell, asked in children. */
bool doctor_opencl(json_t *checks, const cli_args *args, const json_t *libraries, json_t *devices, bool *ok);

#endif
