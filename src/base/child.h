/* A program that is run as a child for one line of answer. */
#ifndef CLADE_BASE_CHILD_H
#define CLADE_BASE_CHILD_H

#include "base/base.h"

enum { CLADE__CHILD_OUT = 3 }; /* the descriptor that the child answers on */

/* Runs `path` (not looked for in PATH) with `argv`, in a process group of its own, with the environment of this
 * process, /dev/null as its standard streams, and no other descriptor of this process. `line` is what it wrote, without
 * the end of the line. After `seconds` its group is killed. CLADE_IO: it could not be started, did not end in time, or
 * said nothing. However this process treats SIGCHLD, nothing is left of the child. */
clade_status clade__child_ask(const char *path, char *const argv[], double seconds, char *line, size_t bytes);

#endif
