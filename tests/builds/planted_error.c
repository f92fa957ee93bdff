/* Commits one error that a sanitizer must detect, selected by the first argument: a heap buffer overflow, a leak, or
 * a shift beyond the width of its type. */
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  const char *error = argc > 1 ? argv[1] : "";
  volatile char *block = malloc((size_t)argc);
  volatile int shifted = argc;
  if (strcmp(error, "overflow") == 0) block[argc] = 1;
  if (strcmp(error, "shift") == 0) shifted = argc << (30 + argc);
  if (strcmp(error, "leak") == 0) block = NULL;
  free((void *)block);
  return shifted == 0;
}
