/* Pipeline schedules: 1F1B (Narayanan et al., PipeDream-Flush) and interleaved 1F1B (Megatron-LM).
 *
 * A stage of P first runs one forward pass per stage behind it, then alternates forward and backward passes, then
 * the remaining backward passes: so it holds activations of at most P - stage micro-batches. With V pieces, a stage
 * runs P micro-batches through one piece, then through the next, and begins with (V - 1) P + 2 (P - 1 - stage)
 * forward passes. If the number of micro-batches is no multiple of P, the missing ones are removed from the order;
 * the remaining passes depend on nothing new. */
#include "parallel/passes.h"

typedef struct order {
  const clade__grid *grid;
  int stage;
  int padded; /* micro-batches, rounded up */
  clade__pass *at;
  int n;
} order;

static void add(order *o, int number, bool backward) {
  const int stages = o->grid->pipeline, each = o->grid->interleave, turn = number % (stages * each);
  const int place = backward ? each - 1 - turn / stages : turn / stages;
  const int share = each == 1 ? number : number / (stages * each) * stages + turn % stages;
  if (share >= o->grid->micro_batches) return;
  o->at[o->n++] =
      (clade__pass){.share = share, .piece = each == 1 ? o->stage : place * stages + o->stage, .backward = backward};
}

static void put_in_order(order *o) {
  const int stages = o->grid->pipeline, each = o->grid->interleave, total = o->padded * each;
  const int behind = stages - 1 - o->stage;
  const int ahead = CLADE_MIN(total, each == 1 ? behind : 2 * behind + (each - 1) * stages);
  for (int i = 0; i < ahead; i++) add(o, i, false);
  for (int i = ahead; i < total; i++) {
    add(o, i, false);
    add(o, i - ahead, true);
  }
  for (int i = total - ahead; i < total; i++) add(o, i, true);
}

/* ---- times ---- */
static size_t number_of(const clade__passes *p, int share, int piece, bool backward) {
  return ((size_t)share * (size_t)p->pieces + (size_t)piece) * 2 + backward;
}

const clade__pass *clade__passes_find(const clade__passes *p, int stages, int share, int piece, bool backward) {
  return &p->at[piece % stages * p->each + p->place[number_of(p, share, piece, backward)]];
}

/* The preceding pass of the same micro-batch; NULL: the first forward pass. */
static const clade__pass *before(const clade__passes *p, int stages, const clade__pass *pass) {
  const int last = p->pieces - 1;
  if (!pass->backward) return pass->piece ? clade__passes_find(p, stages, pass->share, pass->piece - 1, false) : NULL;
  if (pass->piece == last) return clade__passes_find(p, stages, pass->share, last, false);
  return clade__passes_find(p, stages, pass->share, pass->piece + 1, true);
}

/* Schedules the stage's passes from *done on, as far as their predecessors' times are known. */
static bool advance(clade__passes *p, int stages, int stage, int *done) {
  const int first = *done;
  for (; *done < p->each; (*done)++) {
    clade__pass *pass = &p->at[stage * p->each + *done];
    const clade__pass *waits = before(p, stages, pass);
    if (waits && !(waits->end > 0)) break;
    const double free = *done ? pass[-1].end : 0;
    pass->start = waits ? CLADE_MAX(free, waits->end) : free;
    pass->end = pass->start + (pass->backward ? 2 : 1);
    p->end = CLADE_MAX(p->end, pass->end);
  }
  return *done != first;
}

static clade_status find_times(clade__passes *p, int stages) {
  int *done = clade__new((size_t)stages, sizeof *done);
  bool moved = true, whole = true;
  if (!done) return CLADE_NO_MEMORY;
  while (moved) {
    moved = false;
    for (int s = 0; s < stages; s++) moved |= advance(p, stages, s, &done[s]);
  }
  for (int s = 0; s < stages; s++) whole &= done[s] == p->each;
  clade__free(done);
  return whole ? CLADE_OK : CLADE_FAIL(INTERNAL, "passes of a pipeline wait for one another");
}

clade_status clade__passes_new(const clade__grid *grid, clade__passes *out) {
  const int stages = grid->pipeline, each = grid->interleave;
  *out =
      (clade__passes){.pieces = stages * each, .shares = grid->micro_batches, .each = 2 * each * grid->micro_batches};
  const size_t all = (size_t)out->each * (size_t)stages;
  out->at = clade__new(all, sizeof *out->at);
  out->place = clade__new(all, sizeof *out->place);
  if (!out->at || !out->place) return CLADE_NO_MEMORY;
  for (int s = 0; s < stages; s++) {
    order o = {.grid = grid, .stage = s, .at = out->at + s * out->each};
    o.padded = each == 1 ? out->shares : (out->shares + stages - 1) / stages * stages;
    put_in_order(&o);
    for (int i = 0; i < o.n; i++) out->place[number_of(out, o.at[i].share, o.at[i].piece, o.at[i].backward)] = i;
  }
  return find_times(out, stages);
}

void clade__passes_free(clade__passes *passes) {
  clade__free(passes->at);
  clade__free(passes->place);
}

int clade__passes_begun(const clade__passes *p, int stage, double time) {
  int low = 0, high = p->each; /* binary search: passes below `low` have begun, those from `high` on have not */
  while (low < high) {
    const int middle = (low + high) / 2;
    if (p->at[stage * p->each + middle].start <= time)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}
