/* Which of the faults that plant.py planted is in force: the simulation asks by its C interface. */
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
