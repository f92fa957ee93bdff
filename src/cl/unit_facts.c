/* Matrix units of CPUs and GPUs: how each is detected, on the host and by what the device reports. */
#include "cl/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* ---- detection on the host ---- */
enum { LEAF_7_0_B, LEAF_7_0_C, LEAF_7_0_D, LEAF_7_1_A };
enum { ZMM_STATE = 0xe6, TILE_STATE = 0x60000 }; /* bits of XCR0: register state that the operating system saves */

#ifdef __x86_64__
static uint32_t feature_word(int leaf) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, leaf == LEAF_7_1_A, &a, &b, &c, &d)) return 0;
  return leaf == LEAF_7_0_B ? b : leaf == LEAF_7_0_C ? c : leaf == LEAF_7_0_D ? d : a;
}
static uint32_t kept_state(void) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1u)) return 0; /* OSXSAVE */
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return a;
}
#else
static uint32_t feature_word(int leaf) { return leaf < 0; }
static uint32_t kept_state(void) { return 0; }
#endif

static bool has(int leaf, unsigned bit) { return feature_word(leaf) >> bit & 1u; }

static bool host_has(bool processor, uint32_t state, char *why, size_t bytes) {
  if (!processor)
    snprintf(why, bytes, "the processor does not have it");
  else if ((kept_state() & state) != state)
    snprintf(why, bytes, "the operating system does not keep its registers");
  else
    return true;
  return false;
}

bool clade__has_vnni(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts;
  return host_has(has(LEAF_7_0_B, 16) && has(LEAF_7_0_C, 11), ZMM_STATE, why, bytes);
}
bool clade__has_avx512_bf16(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts;
  return host_has(has(LEAF_7_0_B, 16) && has(LEAF_7_1_A, 5), ZMM_STATE, why, bytes);
}

/* Linux enables AMX's register state on request, for all threads of the process and permanently. The request fails
 * if a thread has a signal stack that is too small for it. So it is made late, once, and not if CLADE_AMX forbids
 * it. */
static int permission; /* 0, or errno */
static void ask_permission(void) {
#if defined __linux__ && defined __x86_64__
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  permission = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? 0 : errno;
#else
  permission = ENOSYS;
#endif
}

bool clade__permit_amx(char *why, size_t bytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, ask_permission);
  if (!permission) return true;
  snprintf(why, bytes, "the operating system refused (errno %d: %s)", permission, strerror(permission));
  return false;
}

static bool amx(bool processor, char *why, size_t bytes) {
  const char *wish = getenv("CLADE_AMX");
  if (!host_has(processor && has(LEAF_7_0_D, 24), TILE_STATE, why, bytes)) return false;
  if (!wish || strcasecmp(wish, "off") != 0) return true;
  snprintf(why, bytes, "switched off by CLADE_AMX=%s", wish);
  return false;
}
bool clade__has_amx_int8(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts;
  return amx(has(LEAF_7_0_D, 25), why, bytes);
}
bool clade__has_amx_bf16(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts;
  return amx(has(LEAF_7_0_D, 22), why, bytes);
}

/* ---- detection on the device ---- */
static bool capable(const clade__facts *facts, uint32_t least, char *why, size_t bytes) {
  const uint32_t capability = facts->info.compute_capability;
  if (!capability)
    snprintf(why, bytes, "the device tells no compute capability");
  else if (capability < least)
    snprintf(why, bytes, "the device's compute capability is %u.%u; %u.%u is needed", capability / 10, capability % 10,
             least / 10, least % 10);
  return capability >= least;
}
/* mma of bf16 and tf32, cp.async */
bool clade__has_ptx(const clade__facts *facts, char *why, size_t bytes) { return capable(facts, 80, why, bytes); }
bool clade__has_ptx_f8(const clade__facts *facts, char *why, size_t bytes) { return capable(facts, 89, why, bytes); }

/* Hopper only: later architectures lack wgmma. */
bool clade__has_wgmma(const clade__facts *facts, char *why, size_t bytes) {
  enum { HOPPER = 90 };
  const uint32_t capability = facts->info.compute_capability;
  if (!capability)
    snprintf(why, bytes, "the device tells no compute capability");
  else if (capability != HOPPER)
    snprintf(why, bytes, "the device's compute capability is %u.%u; 9.0 has it", capability / 10, capability % 10);
  return capability == HOPPER;
}
