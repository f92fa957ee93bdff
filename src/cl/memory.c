/* Total and free memory of the host, which bounds CPU devices. */
#include "cl/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Reads a number from a one-line file; `otherwise` if it is absent or not a number ("max"). */
static uint64_t file_number(const char *path, uint64_t otherwise) {
  FILE *file = fopen(path, "re");
  if (!file) return otherwise;
  uint64_t value;
  if (fscanf(file, "%" SCNu64, &value) != 1) value = otherwise;
  fclose(file);
  return value;
}

static uint64_t container_limit(void) {
  uint64_t v2 = file_number("/sys/fs/cgroup/memory.max", UINT64_MAX);
  uint64_t v1 = file_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", UINT64_MAX);
  return CLADE_MIN(v1, v2);
}

uint64_t clade__host_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t physical = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
  return CLADE_MIN(physical, container_limit());
}

static uint64_t container_available(void) {
  uint64_t limit = container_limit();
  if (limit == UINT64_MAX) return limit;
  uint64_t used = file_number("/sys/fs/cgroup/memory.current", 0);
  if (!used) used = file_number("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0);
  return limit > used ? limit - used : 0;
}

uint64_t clade__host_available(void) {
  uint64_t kilobytes, machine = UINT64_MAX;
  char line[128];
  FILE *file = fopen("/proc/meminfo", "re");
  if (file) {
    while (fgets(line, sizeof line, file))
      if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1) machine = kilobytes << 10;
    fclose(file);
  }
  return CLADE_MIN(machine, container_available());
}
