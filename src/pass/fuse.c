/* Elementwise fusion: joins elementwise nodes into programs, and programs into epilogues of ops that support them. */
#include "op/elt/epilogue.h"
#include "pass/pass.h"

/* Fusion state of an elementwise node. */
typedef struct draft {
  bool active, changed;
  clade__elt program;
  clade__id in[CLADE__ELT_INPUTS];
  uint32_t refs[CLADE__ELT_INPUTS]; /* number of uses of in[i] that the program represents */
  clade__id host;                   /* node that takes it as epilogue */
  clade__id guest;                  /* for a host with several outputs: the node that is its epilogue */
} draft;

typedef struct fusion {
  const clade__pass_ctx *ctx;
  char *attrs;    /* buffer for the attributes of any node */
  draft *drafts;  /* by node */
  bool *absorbed; /* by node: computed by another node */
  uint32_t *uses; /* by value */
  uint32_t *work; /* by node: number of preceding nodes that are neither elementwise nor views */
} fusion;

/* Maximal distance of fused nodes, in nodes with work. Fusion delays a computation and prolongs the life of its
 * operands: with gradients of micro-batches, which are added one by one, all of them would stay alive. */
enum { NEAR = 4 };

static clade_status count_work(fusion *f, const clade_graph *g) {
  f->work = clade__new(g->n_nodes, sizeof *f->work);
  if (!f->work) return CLADE_NO_MEMORY;
  for (clade__id id = 1; id + 1 < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    const bool small = n->op == &clade__op_eltwise || (n->op->flags & CLADE_OP_VIEW) || !n->n_in;
    f->work[id + 1] = f->work[id] + !small;
  }
  return CLADE_OK;
}

static bool is_near(const fusion *f, clade__id from, clade__id to) { return f->work[to] - f->work[from] <= NEAR; }

static void drop_input(draft *d, int first, int again) {
  clade__elt *p = &d->program;
  for (int i = 0; i < p->n_insn; i++)
    for (int k = 0; k < 3; k++) {
      uint8_t *arg = &p->insn[i].arg[k];
      if (*arg == again)
        *arg = (uint8_t)first;
      else if (*arg > again)
        (*arg)--;
    }
  d->refs[first] += d->refs[again];
  p->n_in--;
  for (int i = again; i < p->n_in; i++) {
    d->in[i] = d->in[i + 1];
    d->refs[i] = d->refs[i + 1];
    p->in_dtype[i] = p->in_dtype[i + 1];
  }
  p->in_dtype[p->n_in] = 0;
}

/* From index `own` on: input 0 of an epilogue is not a value. */
static void merge_inputs(draft *d, int own) {
  for (int i = own; i < d->program.n_in; i++)
    for (int k = i + 1; k < d->program.n_in; k++)
      if (d->in[i] == d->in[k]) {
        drop_input(d, i, k--);
        d->changed = true;
      }
}

/* Orders operands of commutative functions, so that fewer distinct programs are compiled. */
static void settle_order(clade__elt *p) {
  const unsigned add = clade__elt_by_name("add")->number, mul = clade__elt_by_name("mul")->number;
  for (int i = 0; i < p->n_insn; i++) {
    clade__elt_insn *insn = &p->insn[i];
    bool either = (insn->fn == add || insn->fn == mul) && !insn->wrt;
    if (either && insn->arg[0] > insn->arg[1]) {
      uint8_t first = insn->arg[1];
      insn->arg[1] = insn->arg[0];
      insn->arg[0] = first;
    }
  }
}

/* Whether all uses of in[at] are in this program and it has the result's size. */
static bool ours(const fusion *f, const clade_graph *g, clade__id node, const draft *d, int at) {
  const clade__node *n = &g->nodes[node], *from = &g->nodes[g->values[d->in[at]].node];
  const clade_type *have = clade__type(g, d->in[at]), *want = clade__type(g, n->first_out);
  return f->uses[d->in[at]] == d->refs[at] && from->device == n->device &&
         clade__forced(f->ctx, from) == clade__forced(f->ctx, n) && d->in[at] == from->first_out &&
         !have->layout.block && !want->layout.block && clade_shape_equal(&have->shape, &want->shape);
}

/* Bundle kernels support fewer programs than compiled kernels: fusion must not lose support. */
static bool taken(const fusion *f, const clade_graph *g, const clade__node *n, const clade_op *op, const void *attrs,
                  int n_in, const clade__id *in) {
  clade_type types[CLADE_MAX_OPERANDS], out = *clade__type(g, n->first_out);
  const clade_node view = {sizeof view, op, n->name, attrs, n_in, 1, types, &out};
  double seconds;
  if (!f->ctx->devices[n->device].kernels) return true;
  for (int i = 0; i < n_in; i++) types[i] = *clade__type(g, in[i]);
  return clade__least_impl(f->ctx, &view, n->device, &seconds) >= 0;
}

/* Nodes without a bundle kernel can be fused freely, for the host. */
static bool program_taken(const fusion *f, const clade_graph *g, const clade__node *n, const draft *d) {
  const clade__eltwise_attrs attrs = {d->program};
  return taken(f, g, n, n->op, &attrs, d->program.n_in, d->in);
}

static bool absorb(const fusion *f, const clade_graph *g, const clade__node *n, draft *d, int at, const draft *inner) {
  draft next = {.active = true, .changed = true};
  uint8_t map[CLADE__ELT_INPUTS];
  if (!clade__elt_compose(&d->program, at, &inner->program, &next.program, map)) return false;
  for (int i = 0; i < next.program.n_in; i++) {
    const draft *from = map[i] < CLADE__ELT_INPUTS ? d : inner;
    next.in[i] = from->in[map[i] % CLADE__ELT_INPUTS];
    next.refs[i] = from->refs[map[i] % CLADE__ELT_INPUTS];
  }
  merge_inputs(&next, 0);
  if (!program_taken(f, g, n, &next) && program_taken(f, g, n, d) && program_taken(f, g, n, inner)) return false;
  *d = next;
  return true;
}

/* Whether several operands of the result's size have their last use in the program. */
static bool frees(const fusion *f, const clade_graph *g, clade__id node, const draft *d) {
  const clade_shape *result = &clade__type(g, g->nodes[node].first_out)->shape;
  int n = 0;
  for (int i = 0; i < d->program.n_in; i++)
    n += f->uses[d->in[i]] == d->refs[i] && clade_shape_equal(&clade__type(g, d->in[i])->shape, result);
  return n > 1;
}

static void plan_chain(fusion *f, const clade_graph *g, clade__id node) {
  const clade__node *n = &g->nodes[node];
  draft *d = &f->drafts[node];
  if (n->op != &clade__op_eltwise || clade__elt_has_blocks(&((const clade__eltwise_attrs *)n->attrs)->program)) return;
  d->active = true;
  d->program = ((const clade__eltwise_attrs *)n->attrs)->program;
  for (int i = 0; i < n->n_in; i++) d->in[i] = n->in[i], d->refs[i] = 1;
  merge_inputs(d, 0);
  for (int i = 0; i < d->program.n_in;) {
    clade__id from = g->values[d->in[i]].node;
    bool done = f->drafts[from].active && !f->absorbed[from] && ours(f, g, node, d, i) &&
                (is_near(f, from, node) || !frees(f, g, from, &f->drafts[from])) &&
                absorb(f, g, n, d, i, &f->drafts[from]);
    if (done) f->absorbed[from] = true;
    i = done ? 0 : i + 1; /* its operands are new candidates: restart */
  }
}

/* The host's current epilogue as a draft; input 0 is the op's result. */
static draft epilogue_of(const clade_graph *g, const clade__node *n, const clade__host *host) {
  draft d = {.active = true};
  memcpy(&d.program, (const char *)n->attrs + host->epilogue, sizeof d.program);
  if (!d.program.n_in) { /* no epilogue yet */
    d.program.n_in = 1;
    d.program.in_dtype[0] = (uint8_t)clade__type(g, n->first_out)->dtype;
  }
  for (int i = 1; i < d.program.n_in; i++) d.in[i] = n->in[host->own + i - 1], d.refs[i] = 1;
  return d;
}

/* Whether the host's store can take all operands of the program. */
static bool host_takes(const clade_graph *g, const clade__host *host, const draft *d) {
  const clade__node *n = &g->nodes[d->host];
  const clade_shape *result = &clade__type(g, n->first_out)->shape;
  for (int i = 1; i < d->program.n_in; i++) {
    if (clade__host_refuses(host, &clade__type(g, d->in[i])->shape, result)) return false;
    /* The host must precede the users of its other outputs. */
    if (n->n_out > 1 && g->values[d->in[i]].node > d->host) return false;
  }
  return clade__host_computes(host, &d->program);
}

/* Attributes (in f->attrs) and operands of the host with the program as its epilogue. */
static int host_parts(const fusion *f, const clade__node *from, const clade__host *host, const draft *d,
                      clade__id in[CLADE_MAX_OPERANDS]) {
  int n_in = host->own;
  memcpy(f->attrs, from->attrs, from->op->attr_bytes);
  memcpy(f->attrs + host->epilogue, &d->program, sizeof d->program);
  for (int i = 0; i < host->own; i++) in[i] = from->in[i];
  for (int i = 1; i < d->program.n_in; i++) in[n_in++] = d->in[i];
  return n_in;
}

static void plan_epilogue(fusion *f, const clade_graph *g, clade__id node) {
  draft *d = &f->drafts[node];
  clade__id in[CLADE_MAX_OPERANDS];
  for (int i = 0; d->active && !d->host && i < d->program.n_in; i++) {
    clade__id from = g->values[d->in[i]].node;
    const clade__host *host = clade__host_of(g->nodes[from].op);
    if (!host || f->absorbed[from] || !is_near(f, from, node) || !ours(f, g, node, d, i)) continue;
    draft inner = epilogue_of(g, &g->nodes[from], host);
    uint8_t map[CLADE__ELT_INPUTS];
    draft next = {.active = true, .changed = true, .host = from};
    if (!clade__elt_compose(&d->program, i, &inner.program, &next.program, map)) continue;
    for (int k = 1; k < next.program.n_in; k++) /* the composed program's inputs begin with those of the epilogue */
      next.in[k] = (map[k] < CLADE__ELT_INPUTS ? d : &inner)->in[map[k] % CLADE__ELT_INPUTS];
    if (!host_takes(g, host, &next)) continue;
    merge_inputs(&next, 1);
    int n_in = host_parts(f, &g->nodes[from], host, &next, in);
    if (!taken(f, g, &g->nodes[node], g->nodes[from].op, f->attrs, n_in, in)) continue;
    f->absorbed[from] = true;
    *d = next;
    if (g->nodes[from].n_out > 1) f->drafts[from].guest = node;
  }
}

static clade_status build_host(const fusion *f, const clade_graph *old, const clade__node *n, const draft *d,
                               clade_graph *g, const clade__id *map, clade__id *id) {
  const clade__node *from = &old->nodes[d->host];
  clade__id in[CLADE_MAX_OPERANDS];
  int n_in = host_parts(f, from, clade__host_of(from->op), d, in);
  for (int i = 0; i < n_in; i++) in[i] = map[in[i]];
  return clade__node_new(g, from->op, *from->name ? from->name : n->name, f->attrs, n_in, in, id);
}

/* Builds the fused node at the host's position, since other nodes use its other outputs. */
static clade_status build_early(const fusion *f, const clade_graph *old, clade__id node, clade_graph *g,
                                clade__id *map) {
  const clade__id guest = f->drafts[node].guest;
  clade__id id;
  settle_order(&f->drafts[guest].program);
  g->device = old->nodes[node].device;
  CLADE_TRY(build_host(f, old, &old->nodes[guest], &f->drafts[guest], g, map, &id));
  map[old->nodes[guest].first_out] = g->nodes[id].first_out;
  return clade__map_outputs(&old->nodes[node], g, id, map);
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const fusion *f = user;
  const draft *d = &f->drafts[node];
  const clade__node *n = &old->nodes[node];
  clade__id in[CLADE__ELT_INPUTS], id;
  if (d->guest) return build_early(f, old, node, g, map);
  if (f->absorbed[node] || (d->host && f->drafts[d->host].guest)) return CLADE_OK;
  if (!d->changed) return clade__node_copy(old, node, g, map);
  settle_order(&f->drafts[node].program);
  g->device = n->device;
  if (d->host) {
    CLADE_TRY(build_host(f, old, n, d, g, map, &id));
  } else {
    const clade__eltwise_attrs attrs = {d->program};
    for (int i = 0; i < d->program.n_in; i++) in[i] = map[d->in[i]];
    CLADE_TRY(clade__node_new(g, n->op, n->name, &attrs, d->program.n_in, in, &id));
  }
  map[n->first_out] = g->nodes[id].first_out;
  return CLADE_OK;
}

clade_status clade__pass_fuse(clade__pass_ctx *ctx) {
  const clade_graph *g = ctx->graph;
  clade_status status = CLADE_OK;
  size_t attrs = 1;
  for (clade__id id = 1; id < g->n_nodes; id++) attrs = CLADE_MAX(attrs, g->nodes[id].op->attr_bytes);
  fusion f = {.ctx = ctx};
  f.attrs = clade__new(attrs, 1);
  f.drafts = clade__new(g->n_nodes, sizeof *f.drafts);
  f.absorbed = clade__new(g->n_nodes, sizeof *f.absorbed);
  CLADE_GOTO(f.attrs && f.drafts && f.absorbed ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade__graph_uses(g, &f.uses));
  CLADE_GOTO(count_work(&f, g));
  for (clade__id id = 1; id < g->n_nodes; id++) plan_chain(&f, g, id);
  for (clade__id id = 1; id < g->n_nodes; id++)
    if (!f.absorbed[id]) plan_epilogue(&f, g, id);
  CLADE_GOTO(clade__pass_rewrite(ctx, build, &f));
fail:
  clade__free(f.attrs);
  clade__free(f.drafts);
  clade__free(f.absorbed);
  clade__free(f.uses);
  clade__free(f.work);
  return status;
}
