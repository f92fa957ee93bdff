/* Elementwise programs in the form that bundled kernels interpret, and cost estimates of their implementations. */
#include "op/systolic/kernels.h"

enum { FLOAT, INT, BOOL, OTHER }; /* the same numbers in fpga/prelude.cl */
enum { SELECT = 273, RESULTS = 8 };

static const struct listed {
  uint16_t number, operands;
  bool integers;
} listed[] = {
#define FUNCTION(number, operands, integers) {number, operands, integers},
#include "fpga/interface.def"
};

static const struct listed *find(unsigned number) {
  for (size_t i = 0; i < CLADE_COUNT(listed); i++)
    if (listed[i].number == number) return &listed[i];
  return NULL;
}

static int kind_of(uint8_t dtype) {
  return dtype == CLADE_F32 ? FLOAT : dtype == CLADE_I32 ? INT : dtype == CLADE_BOOL ? BOOL : OTHER;
}

/* Type class of the operand that determines an instruction's arithmetic. */
static int operand_kind(const clade__elt *p, const clade__elt_insn *insn) {
  int arg = insn->arg[insn->fn == SELECT];
  return kind_of(arg < p->n_in ? p->in_dtype[arg] : p->insn[arg - p->n_in].dtype);
}

const char *clade__systolic_refuses(const clade__elt *p, int most_inputs) {
  if (p->n_in > most_inputs) return "its kernel supports fewer operands only";
  for (int i = 0; i < p->n_in; i++)
    if (kind_of(p->in_dtype[i]) > INT) return "its kernel requires f32 or i32";
  for (int k = 0; k < p->n_insn; k++) {
    const clade__elt_insn *insn = &p->insn[k];
    const struct listed *f = find(insn->fn);
    int from = operand_kind(p, insn), to = kind_of(insn->dtype);
    if (!f) return "its kernel lacks one of the functions";
    if (from == OTHER || to == OTHER) return "its kernel supports f32, i32 and bool only";
    if (insn->wrt ? from != FLOAT || !(f->operands >> (insn->wrt - 1) & 1) : from != FLOAT && !f->integers)
      return "its kernel has no such function of these operands";
  }
  return p->n_insn && kind_of(p->insn[p->n_insn - 1].dtype) == BOOL ? "its kernel writes f32 and i32 only" : NULL;
}

static int32_t encode(const clade__elt *p, const clade__elt_insn *insn) {
  const clade__elt_row *row = clade__elt_by_number(insn->fn);
  int32_t code = (int32_t)(insn->fn | insn->wrt << 9 | operand_kind(p, insn) << 23 | kind_of(insn->dtype) << 25);
  for (int i = 0; i < row->arity; i++) {
    int arg = insn->arg[i];
    code |= (int32_t)((arg < p->n_in ? arg : RESULTS + arg - p->n_in) << (11 + 4 * i));
  }
  return code;
}

void clade__systolic_program(clade_kernel_step *s, const clade__elt *p) {
  int32_t code[CLADE__ELT_INSNS] = {0};
  float param[CLADE__ELT_INSNS * CLADE__ELT_PARAMS] = {0};
  for (int k = 0; k < p->n_insn; k++) {
    code[k] = encode(p, &p->insn[k]);
    memcpy(param + k * CLADE__ELT_PARAMS, p->insn[k].param, sizeof p->insn[k].param);
  }
  clade__emit_bytes(s, code, sizeof code);
  clade__emit_bytes(s, param, sizeof param);
}

void clade__systolic_int4(clade_kernel_step *s, const int64_t value[4]) {
  int32_t narrow[4];
  for (int i = 0; i < 4; i++) narrow[i] = (int32_t)value[i];
  clade__emit_bytes(s, narrow, sizeof narrow);
}

const char *clade__systolic_floats(const clade_query *q) {
  const clade_node *n = q->node;
  for (int i = 0; i < n->n_in + n->n_out; i++)
    if ((i < n->n_in ? n->in[i] : n->out[i - n->n_in]).dtype != CLADE_F32) return "its kernel requires f32";
  return NULL;
}

double clade__systolic_seconds(const clade_query *q, double cycles, double bytes) {
  const clade_device_info *d = q->device;
  double mhz = d->array.mhz > 0 ? d->array.mhz : d->clock_mhz ? d->clock_mhz : 200;
  double gbs = d->array.gbs > 0 ? d->array.gbs : 10;
  const double efficiency = 0.74, launch = 2e-5; /* geometric mean of 0.55 and 0.99 */
  return CLADE_MAX(cycles / (mhz * 1e6), bytes / (gbs * 1e9)) / efficiency + launch;
}

double clade__systolic_cost(const clade_query *q, double cycles) {
  return clade__systolic_seconds(q, cycles, clade__node_bytes(q->node));
}

double clade__systolic_elements(const clade_query *q) {
  return clade__systolic_cost(q, clade__node_bytes(q->node) / 8);
}

void clade__systolic_launch(clade_kernel_step *s) {
  const size_t one = 1;
  clade_emit_range(s, 1, &one, &one);
}
