/* Runs a program as a child process and reads one line of its output. */
#ifndef CLADE_BASE_CHILD_H
#define CLADE_BASE_CHILD_H

#include "base/base.h"

enum { CLADE__CHILD_OUT = 3 }; /* descriptor on which the child writes its answer */

/* Runs `path` (no search in PATH) with `argv` and this process's environment, in its own process group. The child's
 * standard streams are /dev/null, and all other descriptors are closed. `line` receives the answer without the
 * newline. The process group is killed after `seconds`. Fails with CLADE_IO if the child cannot be started, does not
 * end in time or writes nothing. The child is always reaped, however the program handles SIGCHLD. */
clade_status clade__child_ask(const char *path, char *const argv[], double seconds, char *line, size_t bytes);

#endif
