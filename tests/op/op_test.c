/* Tests one op on one device: random cases per element type and implementation, each implementation in turn, with
 * gradients, and limits for the number of kernels. Over 400 lines: the options and the loops over cases that they
 * steer are read together. */
#include "op_batch.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cl/internal.h"
#include "op/dims.h"
#include "op_start.h"
#include "op_tiles.h"
#include "pass/pass.h"

static const op_test *const tests[] = {
#define CLADE_OP(NAME, name) &op_test_##name,
#include "op/ops.def"
#undef CLADE_OP
    NULL};

enum { FEW_CASES = 4 }; /* --cases of sanitizer builds */
enum { SKIPPED = 77 };

typedef struct options {
  const char *op, *device, *variants, *absent, *impl, *family, *dtype, *kernels;
  int cases, total, least;
  uint64_t seed;
  bool small, verbose, first, once, tiles, persistent, joined, brief, wide, types, emulated;
  clade_dtype left_out;
} options;

static int usage(const char *program) {
  fprintf(
      stderr,
      "usage: %s --op NAME [--device SPEC] [--cases N | --total N] [--seed N] [--small]\n"
      "       [--least N] [--variants FILE] [--verbose] [--impl NAME] [--dtype NAME] [--first] [--once] [--tiles]\n"
      "       [--types] [--persistent] [--joined] [--kernels FILE] [--brief] [--wide] [--absent FILE] [--family NAME]\n"
      "       [--emulated]\n"
      "  --cases N        random cases per element type (100); twice as many where there is one\n"
      "  --total N        random cases of all element types together, at least, most of them executed once, and of a\n"
      "                   quarter of the size: for devices that are slow at both\n"
      "  --least N        more cases of each implementation until there are N, of kernels that are compiled already\n"
      "  --small          few small cases per implementation and element type, without guard zones, on a device that\n"
      "                   is told to have vectors: for Oclgrind\n"
      "  --impl NAME      this implementation alone, where it accepts; --dtype NAME: this element type alone\n"
      "  --family NAME    the implementations of this family alone: ref, vec, group, mma or library. On a device of "
      "any\n"
      "                   class, whatever they are made for, if it has what they need. On a CPU group and mma run so "
      "by\n"
      "                   themselves\n"
      "  --once           the first case that needs a kernel, by the implementation that is chosen and with the "
      "program\n"
      "                   cache; prints how long the process took to the result\n"
      "  --tiles          N cases of each implementation, with each row that its space lists, by a record that it "
      "starts "
      "from\n"
      "  --types          with --tiles: of every element type, not of the first that it takes\n"
      "  --first          ends at the first case that fails\n"
      "  --persistent         steps go in persistent kernels, also alone and where launches are not dear\n"
      "  --joined         independent steps go in joined launches, as on a GPU, also alone\n"
      "  --kernels FILE   writes the name of each kernel that cases ran, a line each time\n"
      "  --brief          fewer kernels: of f16 and bf16 one alone, by the length of the op's name, and no imitated "
      "matrix units\n"
      "  --wide           indices of 64 bits, as large operands have\n"
      "  --emulated       AMX is there, as tests/amx emulates it, and no unit is imitated; status 77 where the gate "
      "refuses it\n"
      "  --variants FILE  fails where the op needs more kernels than its line there allows\n"
      "  --absent FILE    fails where an implementation computes nothing that the op's line there does not name\n",
      program);
  return 2;
}

static bool parse(int argc, char **argv, options *o) {
  static const struct option table[] = {{"op", required_argument, 0, 'o'},     {"device", required_argument, 0, 'd'},
                                        {"cases", required_argument, 0, 'c'},  {"total", required_argument, 0, 'n'},
                                        {"seed", required_argument, 0, 's'},   {"small", no_argument, 0, 'm'},
                                        {"verbose", no_argument, 0, 'b'},      {"variants", required_argument, 0, 'v'},
                                        {"impl", required_argument, 0, 'i'},   {"dtype", required_argument, 0, 't'},
                                        {"first", no_argument, 0, 'f'},        {"least", required_argument, 0, 'l'},
                                        {"once", no_argument, 0, 'e'},         {"tiles", no_argument, 0, 'r'},
                                        {"persistent", no_argument, 0, 'h'},   {"kernels", required_argument, 0, 'k'},
                                        {"brief", no_argument, 0, 'a'},        {"wide", no_argument, 0, 'w'},
                                        {"types", no_argument, 0, 'y'},        {"absent", required_argument, 0, 'q'},
                                        {"family", required_argument, 0, 'g'}, {"emulated", no_argument, 0, 'u'},
                                        {"joined", no_argument, 0, 'j'},       {0, 0, 0, 0}};
  *o = (options){.cases = 100, .seed = 1, .device = "pocl"};
  for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
    switch (c) {
    case 'o': o->op = optarg; break;
    case 'd': o->device = optarg; break;
    case 'c': o->cases = atoi(optarg); break;
    case 'n': o->total = atoi(optarg); break;
    case 'l': o->least = atoi(optarg); break;
    case 's': o->seed = strtoull(optarg, NULL, 0); break;
    case 'm': o->small = true; break;
    case 'b': o->verbose = true; break;
    case 'v': o->variants = optarg; break;
    case 'i': o->impl = optarg; break;
    case 't': o->dtype = optarg; break;
    case 'f': o->first = true; break;
    case 'e': o->once = true; break;
    case 'r': o->tiles = true; break;
    case 'h': o->persistent = true; break;
    case 'j': o->joined = true; break;
    case 'k': o->kernels = optarg; break;
    case 'a': o->brief = true; break;
    case 'w': o->wide = true; break;
    case 'y': o->types = true; break;
    case 'q': o->absent = optarg; break;
    case 'g': o->family = optarg; break;
    case 'u': o->emulated = true; break;
    default: return false;
    }
  }
  if (o->small && !o->least) o->least = 1;
  return o->op && optind == argc && o->cases > 0 && o->total >= 0;
}

static int count_impls(const clade_op *op) {
  int n = 0;
  while (n < OP_IMPLS && op->impls && op->impls[n]) n++;
  return n;
}

/* Excludes bundle kernels. */
static int count_compiled(const clade_op *op) {
  int n = 0;
  for (int i = 0; i < count_impls(op); i++) n += !op->impls[i]->bundled;
  return n;
}

static const op_form *forms_of(const op_target *t) {
  static const op_form own[] = {{"", NULL}, {NULL, NULL}};
  return t->test->forms ? t->test->forms : own;
}

static int count_forms(const op_target *t) {
  int n = 0;
  while (forms_of(t)[n].name) n++;
  return n;
}

static int count_of_impl(const op_target *t, const op_tally *tally, int impl) {
  int n = 0;
  for (int form = 0; form < count_forms(t); form++) n += tally->cases[form][impl];
  return n;
}

/* Implementations without a cost estimate, such as external libraries, and bundle kernels are only used by name; the
 * last one needs no request. */
static bool takes_turns(const op_target *t, int impl) {
  const clade_impl *it = t->op->impls[impl];
  if (t->family) return !it->bundled && t->family >> it->family & 1;
  return !it->bundled && (it->cost || !t->op->impls[impl + 1]);
}

static int count_turns(const op_target *t) {
  int turns = 0;
  for (int i = 0; i < count_impls(t->op); i++) turns += takes_turns(t, i);
  return CLADE_MAX(turns, 1);
}

static int nth_in_turn(const op_target *t, int number) {
  int all = count_impls(t->op);
  number %= count_turns(t);
  for (int i = 0; i < all; i++)
    if (takes_turns(t, i) && number-- == 0) return i;
  return 0;
}

/* Parses the line "name number more": `more` is added per storage type; 0: no such line. */
static uint64_t allowed_variants(const char *path, const char *name) {
  char line[256], word[128];
  uint64_t number, more, found = 0, stored = 0;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));)
    stored += !clade__is_computed(t) && !clade__has_blocks(t);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) {
    const int n = sscanf(line, "%127s %" SCNu64 " %" SCNu64, word, &number, &more);
    if (n >= 2 && strcmp(word, name) == 0) found = number + (n > 2 ? more * stored : 0);
  }
  if (f) fclose(f);
  return found;
}

static bool check_variants(const op_target *t, const char *path) {
  clade__store_stats stats;
  if (clade__store_get_stats(t->device, &stats) != CLADE_OK) {
    fprintf(stderr, "%s: %s\n", t->op->name, clade_last_error());
    return false;
  }
  uint64_t used = stats.compiled + stats.loaded, allowed = path ? allowed_variants(path, t->op->name) : used;
  printf("%s: %" PRIu64 " kernels, %" PRIu64 " allowed\n", t->op->name, used, allowed);
  if (stats.again) {
    fprintf(stderr, "%s: kernels do not compile together, or call what cl_kernels/builtins.cl does not declare\n",
            t->op->name);
    return false;
  }
  if (used <= allowed) return true;
  fprintf(stderr, "%s: %" PRIu64 " kernels were needed, %s allows %" PRIu64 "\n", t->op->name, used, path, allowed);
  return false;
}

/* Whether the line "op name name..." contains the name. */
static bool named(const char *path, const char *op, const char *name) {
  char line[512], *rest, *word;
  bool found = false;
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) {
    if (!(word = strtok_r(line, " \n", &rest)) || strcmp(word, op) != 0) continue;
    while ((word = strtok_r(NULL, " \n", &rest))) found = found || strcmp(word, name) == 0;
  }
  if (f) fclose(f);
  return found;
}

static bool check_absent(const op_target *t, const op_tally *tally, const char *only, const char *path) {
  bool ok = true;
  for (int i = 0; path && i < count_impls(t->op) && !(t->op->flags & CLADE_OP_VIEW); i++) {
    const char *name = t->op->impls[i]->name;
    if (only && strcmp(only, name) != 0) continue;
    if (!takes_turns(t, i) || count_of_impl(t, tally, i) || named(path, t->op->name, name)) continue;
    fprintf(stderr, "%s: %s computed nothing, and %s does not expect it: %s\n", t->op->name, name, path,
            tally->refusal[i]);
    ok = false;
  }
  return ok;
}

static bool wanted(const options *o, clade_dtype dtype) {
  return (!o->dtype || strcmp(clade_dtype_name(dtype), o->dtype) == 0) && dtype != o->left_out;
}

/* `few`: there were fewer cases than implementations, so not all had a turn. */
static bool check_coverage(const op_target *t, const options *o, const op_tally *tally, bool few) {
  const char *only = o->impl;
  int count[OP_IMPLS];
  for (int i = 0; i < count_impls(t->op); i++) {
    count[i] = count_of_impl(t, tally, i);
    printf("%s: %s computed %d cases%s%s", t->op->name, t->op->impls[i]->name, count[i],
           count[i] || !tally->refusal[i][0] ? "" : "; refused: ", count[i] ? "" : tally->refusal[i]);
    for (int form = 0; t->test->forms && count[i] && form < count_forms(t); form++)
      printf("%s%s %d", form ? ", " : ": ", t->test->forms[form].name, tally->cases[form][i]);
    printf("\n");
  }
  for (int i = 0; i < count_impls(t->op); i++)
    if (only && !count[i] && strcmp(t->op->impls[i]->name, only) == 0) {
      fprintf(stderr, "%s: %s computed nothing: %s\n", t->op->name, only, tally->refusal[i]);
      return false;
    }
  for (int i = 0; i < count_impls(t->op); i++) {
    const int n = clade__alternatives(t->op->impls[i]);
    if (only && strcmp(t->op->impls[i]->name, only)) continue; /* taken where the other refuses, by cost */
    if (n < 2 || count[i] < 10 * n || tally->alternatives[i] == (1u << n) - 1) continue;
    fprintf(stderr, "%s: not all alternatives in layouts of %s were used\n", t->op->name, t->op->impls[i]->name);
    return false;
  }
  for (int i = 0; i < count_impls(t->op); i++)
    if (t->family && takes_turns(t, i) && !count[i]) {
      fprintf(stderr, "%s: %s computed nothing: %s\n", t->op->name, t->op->impls[i]->name, tally->refusal[i]);
      return false;
    }
  int last = count_impls(t->op) - 1;
  bool view = t->op->flags & CLADE_OP_VIEW; /* views have no step */
  if (last >= 0 && !few && !only && !view && !t->bundle && !t->family && !count[last]) {
    fprintf(stderr, "%s: %s, which runs everywhere, was never used\n", t->op->name, t->op->impls[last]->name);
    return false;
  }
  if (tally->kinks > tally->slopes) {
    fprintf(stderr, "%s: %" PRId64 " derivatives compared, but %" PRId64 " left out at kinks\n", t->op->name,
            tally->slopes, tally->kinks);
    return false;
  }
  if (t->op->grad && !t->bundle && !tally->slopes && wanted(o, CLADE_F32)) {
    fprintf(stderr, "%s: is differentiable, but no derivative was compared\n", t->op->name);
    return false;
  }
  return true;
}

/* The requested implementation, or that of the turn. */
static int impl_of(const op_target *t, const options *o, int turn) {
  for (int i = 0; o->impl && i < count_impls(t->op); i++)
    if (strcmp(t->op->impls[i]->name, o->impl) == 0) return i;
  return nth_in_turn(t, turn);
}

/* Per element type. */
static int count_cases(const op_target *t, const options *o) {
  int dtypes = 0;
  for (int d = 0; t->test->dtypes[d]; d++) dtypes += t->test->dtypes[d] != o->left_out;
  if (o->small) return CLADE_MAX(count_compiled(t->op), 1) * 3;
  if (o->total) return (o->total + dtypes - 1) / dtypes;
  return dtypes > 1 ? o->cases : 2 * o->cases;
}

static uint64_t seed_of(const options *o, const op_case *c) { return op_case_seed(o->seed, c); }

/* *impl: the implementation whose turn it is. */
static op_case nth_case(const op_target *t, const options *o, clade_dtype dtype, int i, bool fp64, int *impl) {
  op_case c = {.dtype = dtype, .number = i, .small = o->small, .light = o->total > 0, .fp64 = fp64, .impl = ""};
  bool gradients = t->op->grad && dtype == CLADE_F32;
  c.brief = o->brief;
  c.gradient = gradients && (o->small ? i % 3 == 2 : i % 4 == 3);
  /* cases with gradients, every fourth one, have separate turns */
  int turn = !gradients || o->small ? i : c.gradient ? i / 4 : i - i / 4;
  c.form = turn / count_turns(t) % count_forms(t);
  *impl = impl_of(t, o, turn);
  if (count_impls(t->op)) c.impl = t->op->impls[*impl]->name;
  return c;
}

static bool run_case(const op_target *t, const options *o, clade_dtype dtype, int i, bool fp64, op_tally *tally) {
  int impl;
  op_case c = nth_case(t, o, dtype, i, fp64, &impl);
  return op_case_run(t, &c, seed_of(o, &c), impl, tally) != OP_FAILED;
}

enum { NONE = -1 }; /* no case at all: the implementation does not support the form */

/* Draws additional cases for an implementation that refused many, until it has the requested number. Nothing new is
 * compiled for them, since another shape costs microseconds and another kernel a second; except to give each
 * implementation at least one case. */
static bool run_more(const op_target *t, const options *o, int form, int impl, int least, bool fp64, op_tally *tally) {
  const clade_dtype *dtypes = t->test->dtypes;
  const int *have = &tally->cases[form][impl];
  const char *name = t->op->impls[impl]->name;
  enum { MOST = 5000 };
  for (int i = 0; i < MOST && *have < least; i++)
    for (int d = 0; dtypes[d] && *have < least; d++) {
      if (!wanted(o, dtypes[d])) continue;
      op_case c = {.dtype = dtypes[d], .number = count_cases(t, o) + i, .form = form, .impl = name, .fp64 = fp64};
      c.small = o->small;
      c.brief = o->brief;
      c.light = c.more = true;
      if (op_case_run(t, &c, seed_of(o, &c), impl, tally) == OP_FAILED) return false;
    }
  if (least == NONE ? !*have : *have >= least) return true;
  fprintf(stderr, "%s: %s computed %d cases of %s, and %d%s are wanted; it refused: %s\n", t->op->name, name, *have,
          *forms_of(t)[form].name ? forms_of(t)[form].name : t->op->name, CLADE_MAX(least, 0),
          least == NONE ? "" : " at least", tally->refusal[impl]);
  return false;
}

static bool lacks(const op_target *t, int form, int impl) {
  const char *names = forms_of(t)[form].lacks, *name = t->op->impls[impl]->name;
  const size_t n = strlen(name);
  for (const char *at = names; at && (at = strstr(at, name)); at += n)
    if ((at == names || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

/* Balances the number of cases over the forms that the implementation supports. */
static bool run_forms(const op_target *t, const options *o, int impl, bool fp64, op_tally *tally) {
  bool ok = true;
  int forms = 0;
  for (int form = 0; form < count_forms(t); form++) forms += !lacks(t, form, impl);
  for (int form = 0; form < count_forms(t); form++)
    ok = run_more(t, o, form, impl, lacks(t, form, impl) ? NONE : (o->least + forms - 1) / forms, fp64, tally) && ok;
  return ok;
}

/* Some forms do not fit small cases, so one case suffices there, unless a family was requested. Slow devices may
 * skip them. */
static bool wants_more(const op_target *t, const options *o, const op_tally *tally, int impl) {
  const int have = count_of_impl(t, tally, impl);
  const bool asked = o->impl ? strcmp(t->op->impls[impl]->name, o->impl) == 0 : takes_turns(t, impl);
  return asked && (o->small && !o->family ? !have : have || !o->total);
}

static bool run_least(const op_target *t, const options *o, bool fp64, op_tally *tally) {
  bool ok = true;
  clade__store_closed = !o->small;
  for (int i = 0; i < count_impls(t->op) && !(t->op->flags & CLADE_OP_VIEW); i++)
    if (wants_more(t, o, tally, i)) ok = run_forms(t, o, i, fp64, tally) && ok;
  if (tally->passed >= o->least) return ok;
  fprintf(stderr, "%s: %d cases ran, and at least %d are wanted\n", t->op->name, tally->passed, o->least);
  return false;
}

static void add_cases(op_batch *b, const op_target *t, const options *o, bool fp64, int i) {
  const clade_dtype *dtypes = t->test->dtypes;
  for (int d = 0; dtypes[d]; d++) {
    int impl;
    op_case c = nth_case(t, o, dtypes[d], i, fp64, &impl);
    clade_func *func = wanted(o, dtypes[d]) ? op_case_plan(t, &c, seed_of(o, &c), impl) : NULL;
    if (func) op_batch_take(b, func);
  }
}

static void compile_cases(const op_target *t, const options *o, bool fp64, int from, int to) {
  op_batch b = {0};
  for (int i = from; i < to; i++) add_cases(&b, t, o, fp64, i);
  op_batch_compile(&b, t);
}

/* The first cases of all types run first, with their kernels in separate programs: a build that runs few cases then
 * finds them in the cache of one that ran many. */
static bool run_cases(const op_target *t, const options *o, bool fp64, op_tally *tally) {
  const clade_dtype *dtypes = t->test->dtypes;
  int failures[16] = {0}, all = count_cases(t, o);
  int few = CLADE_MIN(all, dtypes[1] ? FEW_CASES : 2 * FEW_CASES);
  bool ok = true;
  if (!o->first && !o->total) { /* skip batching: the run may end early; rusticl does not gain from it */
    compile_cases(t, o, fp64, 0, few);
    compile_cases(t, o, fp64, few, all);
  }
  for (int i = 0; i < all; i++)
    for (int d = 0; dtypes[d]; d++) {
      if (!wanted(o, dtypes[d]) || failures[d] == 3 || run_case(t, o, dtypes[d], i, fp64, tally)) continue;
      failures[d]++;
      ok = false;
      if (o->first) return false;
    }
  return ok;
}

/* A CPU also runs implementations for GPUs, so that machines without a GPU test them. */
static bool set_families(op_target *t, const options *o) {
  const bool cpu = clade__device_info(t->device)->device_class == CLADE_CPU;
  t->anywhere = cpu ? 1u << CLADE_FAMILY_GROUP | 1u << CLADE_FAMILY_MMA : 0;
  if (!o->family) return true;
  for (int f = CLADE_FAMILY_REF; f <= CLADE_FAMILY_LIBRARY; f++)
    if (strcmp(o->family, clade_family_name((clade_family)f)) == 0) t->family = t->anywhere = 1u << f;
  int n = 0;
  for (int i = 0; i < count_impls(t->op); i++) n += t->family && takes_turns(t, i);
  if (!n) fprintf(stderr, "%s: no implementation is of the family \"%s\"\n", t->op->name, o->family);
  return n;
}

static op_told has(const clade_device *device) {
  const clade_device_info *info = clade__device_info(device);
  return (op_told){info->compute_units, info->l2_bytes, clade__last_cache(info), info->max_group};
}

/* Oclgrind computes with vectors of any length but reports 1, which the CPU families refuse, and one compute unit,
 * which would process all parts. Persistent kernels are tested as launches, because their workers' waiting would be
 * reported as data races. */
static void pretend(clade_device *device, const options *o) {
  clade__facts *facts = &device->facts;
  if (o->small) facts->info.vector_f32 = CLADE_MAX(facts->info.vector_f32, 8u), facts->info.persistent = true;
  if (o->small && !o->persistent) facts->info.compute_units = CLADE_MAX(facts->info.compute_units, 2u);
  if (o->persistent) facts->quirks |= 1u << CLADE__QUIRK_SLOW_WAKE;
}

/* AMX, which the gate must have let through. */
static bool has_tiles(clade_device *device) {
  bool has = clade_device_ask_units(device) == CLADE_OK;
  for (int i = CLADE_UNIT_AMX_INT8; i <= CLADE_UNIT_AMX_BF16; i++) {
    const clade_unit_info *unit = &clade__device_info(device)->unit[i];
    if (!unit->used) printf("no emulated AMX: %s\n", unit->reason);
    has = has && unit->used;
  }
  return has;
}

static bool run(const options *o, const op_test *test) {
  op_target t = {.test = test, .op = clade__op_find(test->name), .verbose = o->verbose};
  op_tally tally = {0};
  clade_device_info info = {.size = sizeof info};
  bool ok = true;
  clade__plan_guard_bytes = o->small ? 0 : 256; /* Oclgrind checks buffer bounds itself */
  if (clade_device_find(o->device, &t.device) != CLADE_OK || clade_device_get_info(t.device, &info) != CLADE_OK) {
    fprintf(stderr, "%s: %s\n", o->device, clade_last_error());
    return false;
  }
  pretend(t.device, o);
  t.has = has(t.device);
  if (o->emulated && !has_tiles(t.device)) exit(SKIPPED);
  if (!set_families(&t, o)) return false;
  t.kernels = o->kernels ? fopen(o->kernels, "w") : NULL;
  if (o->kernels && !t.kernels) {
    perror(o->kernels);
    return false;
  }
  t.bundle = info.binaries && !info.sources;
  printf("%s on %s\n", test->name, info.name);
  if (o->tiles) {
    const op_tiles tiles = {o->cases, o->seed, o->impl, o->dtype, o->types, info.fp64};
    ok = op_tiles_run(&t, &tiles, &tally);
    clade_device_release(t.device);
    return ok;
  }
  ok = op_start_elsewhere(&t, o->seed, o->small) && run_cases(&t, o, info.fp64, &tally);
  ok = ok && run_least(&t, o, info.fp64, &tally);
  printf("%s: %d cases, %" PRId64 " elements, %" PRId64 " derivatives compared; at most %.2f of a bound used\n",
         test->name, tally.passed, tally.elements, tally.slopes, tally.worst);
  ok = ok && check_coverage(&t, o, &tally, !o->small && count_cases(&t, o) < count_impls(t.op));
  ok = check_absent(&t, &tally, o->impl, o->absent) && ok;
  ok = check_variants(&t, o->variants) && ok;
  if (t.kernels) fclose(t.kernels);
  clade_device_release(t.device);
  return ok;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool run_once(const options *o, const op_test *test, double start) {
  op_target t = {.test = test, .op = clade__op_find(test->name), .chosen = true};
  op_tally tally = {0};
  clade__store_stats stats = {0};
  bool ok = clade_device_find(o->device, &t.device) == CLADE_OK;
  int most = t.op->flags & CLADE_OP_VIEW ? 1 : 20;
  if (ok) t.has = has(t.device);
  for (int i = 0; ok && i < most && !stats.compiled && !stats.loaded; i++) {
    op_case c = {.dtype = test->dtypes[0], .number = i, .impl = ""};
    ok = op_case_run(&t, &c, seed_of(o, &c), 0, &tally) == OP_PASSED &&
         clade__store_get_stats(t.device, &stats) == CLADE_OK;
  }
  printf("{\"op\":\"%s\",\"seconds\":%.3f,\"compiled\":%" PRIu64 ",\"loaded\":%" PRIu64 "}\n", test->name,
         now() - start, stats.compiled, stats.loaded);
  clade_device_release(t.device);
  return ok;
}

int main(int argc, char **argv) {
  const double start = now();
  op_list_types();
  options o;
  if (!parse(argc, argv, &o)) return usage(argv[0]);
  /* PoCL's handler skips integer divisions by zero; disable it, so that they end the process, including those of
   * warm-up launches with zeros. */
  setenv("POCL_SIGFPE_HANDLER", "0", 1);
  /* without a cache PoCL need not compile kernels twice for fetching binaries */
  if (clade_init(.no_cache = !o.once) != CLADE_OK) return 1;
  /* separate launches; other tests compare persistent kernels with them */
  if (!o.once) clade__persistent_least = o.persistent ? 1 : SIZE_MAX;
  clade__joins_anywhere = o.joined;
  if (o.joined) clade__joined_least = 1;
  clade__always_wide = o.wide;
  /* emulated matrix units, which test their kernels except for the instruction; not for first use */
  clade__units_imitated = !o.brief && !o.once && !o.emulated;
  if (o.emulated) clade__units_assumed = 1u << CLADE_UNIT_AMX_INT8 | 1u << CLADE_UNIT_AMX_BF16;
  for (int i = 0; tests[i]; i++) {
    if (strcmp(tests[i]->name, o.op) != 0) continue;
    if (o.brief) o.left_out = strlen(o.op) % 2 ? CLADE_F16 : CLADE_BF16;
    return !(o.once ? run_once(&o, tests[i], start) : run(&o, tests[i]));
  }
  fprintf(stderr, "op_test: there is no op \"%s\"\n", o.op);
  return 2;
}
