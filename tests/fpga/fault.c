/* Selects the active fault of those planted by plant.py, for the simulation's C interface. */
#include <stdlib.h>

int fault(void);

int fault(void) {
  static int chosen = -1;
  if (chosen < 0) {
    const char *text = getenv("CLADE_FAULT");
    chosen = text ? atoi(text) : 0;
  }
  return chosen;
}
