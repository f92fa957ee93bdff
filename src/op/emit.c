/* Functions by which an implementation describes its steps; each call is validated. Makes no OpenCL call. */
#include "op/op.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* OpenCL's minimum for CL_DEVICE_MAX_PARAMETER_SIZE: a launch with more arguments may fail. */
enum { MAX_ARG_BYTES = 1024 };

static const char *op_name(const clade_emit *e) { return e->query->node->op ? e->query->node->op->name : "op"; }

/* Bound on how far a loop counter may step past the last element; indices must not overflow there. */
enum { BEYOND = 4096 };
bool clade__always_wide;

static bool wide_type(const clade_type *type) {
  size_t bytes;
  int64_t elements = 0;
  clade_shape stored = type->shape;
  if (type->layout.block || clade__has_blocks(type->dtype))
    return clade_type_bytes(type, &bytes) != CLADE_OK || bytes > INT32_MAX - BEYOND;
  return clade_shape_elements(&stored, &elements) != CLADE_OK || elements > INT32_MAX - BEYOND;
}

void clade__emit_begin(clade_emit *emit, clade__arena *arena, const clade_query *query) {
  const clade_node *n = query->node;
  *emit = (clade_emit){.arena = arena, .query = query, .wide = clade__always_wide};
  for (int i = 0; i < n->n_in; i++) emit->wide |= wide_type(&n->in[i]);
  for (int i = 0; i < n->n_out; i++) emit->wide |= wide_type(&n->out[i]);
}

/* Keeps the first error. */
static void keep(clade_emit *e, clade_status status) {
  if (e->status == CLADE_OK) e->status = status;
}

/* Makes room for one more element in an array in the arena. */
static bool room(clade_emit *e, void *array, size_t count, size_t *capacity, size_t size) {
  void *old, *larger;
  if (count < *capacity) return true;
  size_t want = *capacity ? *capacity * 2 : 8;
  memcpy(&old, array, sizeof old);
  if (!(larger = clade__arena_new(e->arena, want * size))) {
    keep(e, CLADE_NO_MEMORY);
    return false;
  }
  if (count) memcpy(larger, old, count * size);
  memcpy(array, &larger, sizeof larger);
  *capacity = want;
  return true;
}

static clade_kernel_step *step_new(clade_emit *e, clade__step_kind kind) {
  clade_kernel_step *s = clade__arena_new(e->arena, sizeof *s);
  if (!s) {
    keep(e, CLADE_NO_MEMORY);
    return NULL;
  }
  s->kind = kind;
  s->emit = e;
  *(e->last ? &e->last->next : &e->first) = s;
  e->last = s;
  return s;
}

static bool identifier(const char *text) {
  if (!text || !*text || isdigit((unsigned char)*text)) return false;
  for (; *text; text++)
    if (!isalnum((unsigned char)*text) && *text != '_') return false;
  return true;
}

clade_kernel_step *clade_emit_kernel(clade_emit *e, const char *kernel) {
  if (!e) {
    CLADE_FAIL(INVALID, "clade_emit_kernel: the emit is NULL");
    return NULL;
  }
  if (!identifier(kernel)) {
    keep(e, CLADE_FAIL(INVALID, "%s: \"%s\" is no name of a kernel", op_name(e), kernel ? kernel : "(null)"));
    return NULL;
  }
  clade_kernel_step *s = step_new(e, CLADE__STEP_KERNEL);
  if (!s) return NULL;
  if (!(s->kernel = clade__arena_text(e->arena, kernel))) keep(e, CLADE_NO_MEMORY);
  clade_emit_define(s, "INDEX64", e->wide);
  return s;
}

/* Only kernel steps have parameters and ranges; steps of libraries and of the host take operands alone. */
static bool is_launch(clade_kernel_step *s, const char *what) {
  if (!s || s->emit->status != CLADE_OK) return false;
  if (s->kind == CLADE__STEP_KERNEL) return true;
  keep(s->emit, CLADE_FAIL(INVALID, "%s: %s, %s, takes operands alone, and no %s", op_name(s->emit), s->kernel,
                           s->kind == CLADE__STEP_HOST ? "a host step" : "a library's", what));
  return false;
}

/* ---- compile-time parameters ---- */
void clade_emit_define_text(clade_kernel_step *s, const char *name, const char *text) {
  if (!is_launch(s, "parameters")) return;
  clade_emit *e = s->emit;
  if (!identifier(name) || !text || strpbrk(text, "\r\n")) {
    keep(e, CLADE_FAIL(INVALID, "%s: #define %s %s: expected an identifier and one line of text", op_name(e),
                       name ? name : "(null)", text ? text : "(null)"));
    return;
  }
  for (size_t i = 0; i < s->n_defines; i++)
    if (strcmp(s->defines[i].name, name) == 0) {
      keep(e, CLADE_FAIL(DUPLICATE, "%s: kernel %s defines %s twice", op_name(e), s->kernel, name));
      return;
    }
  if (!room(e, &s->defines, s->n_defines, &s->define_capacity, sizeof *s->defines)) return;
  clade__define d = {clade__arena_text(e->arena, name), clade__arena_text(e->arena, text)};
  if (!d.name || !d.text)
    keep(e, CLADE_NO_MEMORY);
  else
    s->defines[s->n_defines++] = d;
}

void clade_emit_define(clade_kernel_step *s, const char *name, int64_t value) {
  char text[48];
  if (value == INT64_MIN)
    snprintf(text, sizeof text, "(-%" PRId64 "L - 1)", INT64_MAX); /* without the minus it would overflow */
  else
    snprintf(text, sizeof text, value < 0 ? "(%" PRId64 ")" : "%" PRId64, value);
  clade_emit_define_text(s, name, text);
}

/* ---- arguments ---- */
static size_t arg_bytes(const clade__arg *arg, bool wide) {
  if (arg->kind == CLADE__ARG_BYTES) return arg->bytes;
  return arg->kind == CLADE__ARG_LOCAL ? sizeof(void *) : sizeof(void *) + (wide ? 8 : 4);
}

static void add_arg(clade_kernel_step *s, const clade__arg *arg) {
  clade_emit *e = s->emit;
  const size_t most = s->kind == CLADE__STEP_LIBRARY ? CLADE_MAX_LIBRARY_OPERANDS
                      : s->kind == CLADE__STEP_HOST  ? CLADE_MAX_HOST_OPERANDS
                                                     : SIZE_MAX;
  if (s->n_args == most) {
    keep(e, CLADE_FAIL(INVALID, "%s: %s takes at most %zu operands", op_name(e), s->kernel, most));
    return;
  }
  size_t total = arg_bytes(arg, e->wide);
  for (size_t i = 0; i < s->n_args; i++) total += arg_bytes(&s->args[i], e->wide);
  if (total > MAX_ARG_BYTES && s->kind == CLADE__STEP_KERNEL) {
    keep(e, CLADE_FAIL(UNSUPPORTED, "%s: the arguments of kernel %s are %zu bytes; devices promise %d", op_name(e),
                       s->kernel, total, MAX_ARG_BYTES));
    return;
  }
  if (room(e, &s->args, s->n_args, &s->arg_capacity, sizeof *s->args)) s->args[s->n_args++] = *arg;
}

/* Unit of an operand's offset: an element, or a byte if the kernel addresses blocks itself. */
static clade_status place_of(const clade_type *type, bool by_blocks, size_t *bytes) {
  *bytes = 1;
  return by_blocks && clade__has_blocks(type->dtype) ? CLADE_OK : clade__dtype_element(type->dtype, bytes);
}

static void add_operand(clade_kernel_step *s, clade__arg_kind kind, int index, int64_t at, bool by_blocks) {
  if (!s || s->emit->status != CLADE_OK) return;
  clade_emit *e = s->emit;
  const clade_node *n = e->query->node;
  int count = kind == CLADE__ARG_IN ? n->n_in : n->n_out;
  size_t element;
  if (index < 0 || index >= count) {
    keep(e, CLADE_FAIL(INVALID, "%s: kernel %s takes %s %d, but the node has %d", op_name(e), s->kernel,
                       kind == CLADE__ARG_IN ? "input" : "output", index, count));
    return;
  }
  const clade_type *type = kind == CLADE__ARG_IN ? &n->in[index] : &n->out[index];
  clade_status status = place_of(type, by_blocks, &element);
  if (status != CLADE_OK)
    keep(e, clade__fail_in(status, "%s: kernel %s", op_name(e), s->kernel));
  else
    add_arg(s, &(clade__arg){.kind = kind, .operand = index, .at = (size_t)at * element, .element = (uint32_t)element});
}

void clade_emit_in(clade_kernel_step *s, int index) { add_operand(s, CLADE__ARG_IN, index, 0, false); }
void clade_emit_out(clade_kernel_step *s, int index) { add_operand(s, CLADE__ARG_OUT, index, 0, false); }
void clade__emit_in_at(clade_kernel_step *s, int index, int64_t element) {
  add_operand(s, CLADE__ARG_IN, index, element, false);
}
void clade__emit_in_blocks(clade_kernel_step *s, int index) { add_operand(s, CLADE__ARG_IN, index, 0, true); }
void clade__emit_out_blocks(clade_kernel_step *s, int index) { add_operand(s, CLADE__ARG_OUT, index, 0, true); }

void clade_emit_workspace(clade_kernel_step *s, size_t byte_offset, size_t element_bytes) {
  if (!s || s->emit->status != CLADE_OK) return;
  clade_emit *e = s->emit;
  if (s->kind == CLADE__STEP_HOST)
    keep(e,
         CLADE_FAIL(INVALID, "%s: %s, a host step, takes inputs and outputs, and no workspace", op_name(e), s->kernel));
  else if (element_bytes == 0 || element_bytes > UINT32_MAX || byte_offset % element_bytes)
    keep(e, CLADE_FAIL(INVALID, "%s: kernel %s: a workspace at byte %zu cannot hold elements of %zu bytes", op_name(e),
                       s->kernel, byte_offset, element_bytes));
  else
    add_arg(s, &(clade__arg){.kind = CLADE__ARG_WORKSPACE, .at = byte_offset, .element = (uint32_t)element_bytes});
}

static void add_value(clade_kernel_step *s, const void *value, size_t bytes, char type) {
  if (!is_launch(s, "values")) return;
  clade__arg arg = {.kind = CLADE__ARG_BYTES, .bytes = (uint32_t)bytes, .type = type};
  memcpy(arg.value, value, bytes);
  add_arg(s, &arg);
}

void clade__emit_bytes(clade_kernel_step *s, const void *value, size_t bytes) { add_value(s, value, bytes, 0); }
void clade_emit_i32(clade_kernel_step *s, int32_t value) { add_value(s, &value, sizeof value, 'i'); }
void clade_emit_u32(clade_kernel_step *s, uint32_t value) { add_value(s, &value, sizeof value, 'u'); }
void clade_emit_f32(clade_kernel_step *s, float value) { add_value(s, &value, sizeof value, 'f'); }

/* Fails if the value does not fit into index_t. */
static bool fits(clade_kernel_step *s, int64_t value) {
  if (s->emit->wide || (value >= INT32_MIN && value <= INT32_MAX)) return true;
  keep(s->emit, CLADE_FAIL(OVERFLOW, "%s: kernel %s: %" PRId64 " does not fit the index type of 32 bits",
                           op_name(s->emit), s->kernel, value));
  return false;
}

void clade_emit_index(clade_kernel_step *s, int64_t value) {
  if (!s || s->emit->status != CLADE_OK || !fits(s, value)) return;
  int32_t narrow = (int32_t)value;
  if (s->emit->wide)
    clade__emit_bytes(s, &value, sizeof value);
  else
    add_value(s, &narrow, sizeof narrow, 'i');
}

void clade_emit_index8(clade_kernel_step *s, int n, const int64_t *value) {
  int64_t wide[8] = {0};
  int32_t narrow[8] = {0};
  if (!s || s->emit->status != CLADE_OK) return;
  if (n < 0 || n > 8 || (n && !value)) {
    keep(s->emit, CLADE_FAIL(INVALID, "%s: kernel %s: %d values for 8 indices", op_name(s->emit), s->kernel, n));
    return;
  }
  for (int i = 0; i < n; i++) {
    if (!fits(s, value[i])) return;
    wide[i] = value[i];
    narrow[i] = (int32_t)value[i];
  }
  if (s->emit->wide)
    clade__emit_bytes(s, wide, sizeof wide);
  else
    add_value(s, narrow, sizeof narrow, '8');
}

void clade_emit_local(clade_kernel_step *s, size_t bytes) {
  if (!is_launch(s, "local memory")) return;
  clade_emit *e = s->emit;
  size_t total = bytes;
  for (size_t i = 0; i < s->n_args; i++)
    if (s->args[i].kind == CLADE__ARG_LOCAL && !clade__add(total, s->args[i].at, &total)) total = SIZE_MAX;
  if (bytes == 0 || total > e->query->device->local_bytes) /* some OpenCL implementations crash at the launch */
    keep(e, CLADE_FAIL(UNSUPPORTED, "%s: kernel %s asks for %zu bytes of local memory; the device has %" PRIu64,
                       op_name(e), s->kernel, total, e->query->device->local_bytes));
  else
    add_arg(s, &(clade__arg){.kind = CLADE__ARG_LOCAL, .at = bytes});
}

void clade_emit_range(clade_kernel_step *s, int dims, const size_t *global, const size_t *local) {
  if (!is_launch(s, "range")) return;
  clade_emit *e = s->emit;
  size_t group = 1;
  if (dims < 1 || dims > 3 || !global || !local) {
    keep(e, CLADE_FAIL(INVALID, "%s: kernel %s: a range has 1 to 3 dimensions with global and local sizes", op_name(e),
                       s->kernel));
    return;
  }
  s->dims = dims;
  s->dropped = false;
  for (int i = 0; i < 3; i++) {
    s->global[i] = i < dims ? global[i] : 1;
    s->local[i] = i < dims ? local[i] : 0;
    if (i >= dims) continue;
    if (s->local[i] == 0 || !clade__mul(group, s->local[i], &group) || group > e->query->device->max_group ||
        s->local[i] > e->query->device->max_item[i]) {
      keep(e,
           CLADE_FAIL(UNSUPPORTED, "%s: kernel %s: a local size of %zu in dimension %d; groups have at most %" PRIu64,
                      op_name(e), s->kernel, s->local[i], i, e->query->device->max_group));
      return;
    }
    if (!clade__round_up(s->global[i], s->local[i], &s->global[i])) {
      keep(e, CLADE_FAIL(OVERFLOW, "%s: kernel %s: the range overflows in dimension %d", op_name(e), s->kernel, i));
      return;
    }
    s->dropped |= s->global[i] == 0;
  }
}

void clade_emit_copy(clade_emit *e, int in, int out) {
  if (!e) {
    CLADE_FAIL(INVALID, "clade_emit_copy: the emit is NULL");
    return;
  }
  if (e->status != CLADE_OK) return;
  const clade_node *n = e->query->node;
  size_t from = 0, to = 0;
  clade_status status;
  if (in < 0 || in >= n->n_in || out < 0 || out >= n->n_out) {
    keep(e, CLADE_FAIL(INVALID, "%s: a copy of input %d to output %d; the node has %d and %d", op_name(e), in, out,
                       n->n_in, n->n_out));
    return;
  }
  if ((status = clade_type_bytes(&n->in[in], &from)) != CLADE_OK ||
      (status = clade_type_bytes(&n->out[out], &to)) != CLADE_OK) {
    keep(e, status);
    return;
  }
  if (from != to) {
    keep(e, CLADE_FAIL(BAD_SHAPE, "%s: a copy of %zu bytes to %zu", op_name(e), from, to));
    return;
  }
  clade_kernel_step *s = step_new(e, CLADE__STEP_COPY);
  if (!s) return;
  s->in = in;
  s->out = out;
  s->dropped = from == 0;
}

/* A step of a library or of the host, with a copy of its private data. */
static clade_kernel_step *foreign_step(clade_emit *e, clade__step_kind kind, const char *routine, const void *who,
                                       const void *work, size_t work_bytes) {
  const char *what = kind == CLADE__STEP_HOST ? "host step" : "step of a library";
  if (!e) {
    CLADE_FAIL(INVALID, "a %s: the emit is NULL", what);
    return NULL;
  }
  if (e->status != CLADE_OK) return NULL;
  if (!identifier(routine) || !who || (work_bytes && !work)) {
    keep(e, CLADE_FAIL(INVALID, "%s: a %s: routine \"%s\", its functions are %s, %zu bytes of work%s", op_name(e), what,
                       routine ? routine : "(null)", who ? "given" : "NULL", work_bytes, work ? "" : " at NULL"));
    return NULL;
  }
  clade_kernel_step *s = step_new(e, kind);
  void *copy = clade__arena_new(e->arena, CLADE_MAX(work_bytes, (size_t)1));
  if (!s || !copy || !(s->kernel = clade__arena_text(e->arena, routine))) {
    keep(e, CLADE_NO_MEMORY);
    return NULL;
  }
  if (work_bytes) memcpy(copy, work, work_bytes);
  s->work = copy;
  return s;
}

clade_kernel_step *clade_emit_library(clade_emit *e, const char *routine, const clade_library *library,
                                      const void *work, size_t work_bytes) {
  clade_kernel_step *s = foreign_step(e, CLADE__STEP_LIBRARY, routine, library, work, work_bytes);
  if (s) s->library = library;
  return s;
}

clade_kernel_step *clade_emit_host(clade_emit *e, const char *routine, const clade_host *host, const void *work,
                                   size_t work_bytes) {
  clade_kernel_step *s = foreign_step(e, CLADE__STEP_HOST, routine, host, work, work_bytes);
  if (s && (host->size < offsetof(clade_host, poll) || !host->begin)) {
    keep(e, CLADE_FAIL(INVALID, "%s: host step %s: its functions have no begin", op_name(e), routine));
    return NULL;
  }
  clade_host *whole = s ? clade__arena_new(e->arena, sizeof *whole) : NULL;
  if (!whole) {
    if (s) keep(e, CLADE_NO_MEMORY);
    return NULL;
  }
  memcpy(whole, host, CLADE_MIN(host->size, sizeof *whole)); /* the caller's struct may be an older, shorter version */
  s->host = whole;
  return s;
}

clade_status clade__emit_end(clade_emit *e) {
  for (const clade_kernel_step *s = e->first; s && e->status == CLADE_OK; s = s->next)
    if (s->kind == CLADE__STEP_KERNEL && s->dims == 0)
      keep(e, CLADE_FAIL(INVALID, "%s: kernel %s has no range", op_name(e), s->kernel));
  return e->status;
}
