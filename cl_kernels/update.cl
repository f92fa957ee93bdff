/* One optimizer step on tensors. update_forward_ref updates up to seven: a work-item updates a piece of one of them,
 * sixteen elements at a time. A piece has at most `piece` elements, a multiple of 16; tensor k has pieces begin[k] to
 * begin[k + 1] and length[k] elements. Missing tensors have no pieces. update_forward_group updates one tensor on GPUs,
 * which join the launches of all tensors (joined.cl): a work-item has four elements.
 *
 * RULE: number of the rule (src/op/update/update.h). SKIPS: step number 0 changes nothing. T: stored type of the updated
 * tensor a; G: of the gradient. b and c, if the rule has them, are floats. Each element is read before the same
 * position is written, so old and new tensors may share memory. */
#if RULE == 2 || RULE == 4
#define STATES 3
#elif RULE == 1 || RULE == 3
#define STATES 2
#else
#define STATES 1
#endif

#if STATES >= 2
#define ARG_B(k)  , ARG(const float, b##k), ARG(float, new_b##k)
#define PASS_B(k) , PASS(b##k), PASS(new_b##k)
#else
#define ARG_B(k)
#define PASS_B(k)
#endif
#if STATES >= 3
#define ARG_C(k)  , ARG(const float, c##k), ARG(float, new_c##k)
#define PASS_C(k) , PASS(c##k), PASS(new_c##k)
#else
#define ARG_C(k)
#define PASS_C(k)
#endif
#ifdef WANT_update_forward_group
#define LANES float4
#else
#define LANES float16
#endif
#define TENSOR(k) \
  ARG(const STORAGE(G), g##k), ARG(const STORAGE(T), a##k), ARG(STORAGE(T), new_a##k) ARG_B(k) ARG_C(k)
#define PASS_TENSOR(k) PASS(g##k), PASS(a##k), PASS(new_a##k) PASS_B(k) PASS_C(k)
#define AT(name, k) (name##k##_base + name##k##_at)
#define PICK(type, name)                                                                               \
  __global type *name = k == 0   ? AT(name, 0)                                                         \
                        : k == 1 ? AT(name, 1)                                                         \
                        : k == 2 ? AT(name, 2)                                                         \
                        : k == 3 ? AT(name, 3)                                                         \
                        : k == 4 ? AT(name, 4)                                                         \
                        : k == 5 ? AT(name, 5)                                                         \
                                 : AT(name, 6)

typedef struct FN(numbers) {
  float lr, before, after, clip, l2, decay, p, q, r, bias1, bias2;
  int first, skipped;
} FN(numbers);

static inline FN(numbers) FN(numbers_of)(const bool decaying, const float lr, const long count, const float before,
                                         const float after, const float clip, const float l2, const float decay,
                                         const float p, const float q, const float r, const float log1,
                                         const float log2) {
  const float t = (float)count;
  const FN(numbers) n = {lr,
                         before,
                         after,
                         clip,
                         decaying ? l2 : 0.0f,
                         decaying ? lr * decay : 0.0f,
                         p,
                         q,
                         r,
                         -1.0f / expm1(t * log1),
                         -1.0f / expm1(t * log2),
                         count == 1,
                         count == 0};
  return n;
}
#define NUMBERS(decaying) \
  FN(numbers_of)(decaying, lr[0], count[0], before[0], after[0], clip, l2, decay, p, q, r, log1, log2)

/* Vectors at one position: the gradient, and the states. */
typedef struct FN(place) {
  LANES g, a, b, c;
} FN(place);

static inline void FN(change)(FN(place) *x, FN(numbers) n) {
#ifdef SKIPS
  if (n.skipped) return;
#endif
  LANES g = x->g * n.before;
  g = g < -n.clip ? (LANES)-n.clip : g > n.clip ? (LANES)n.clip : g; /* NaN is preserved */
  g *= n.after;
#if RULE <= 4
  g += n.l2 * x->a;
  LANES a = x->a - n.decay * x->a;
#endif
#if RULE == 0 /* SGD */
  x->a = a - n.lr * g;
#elif RULE == 1 /* SGD with momentum p; r: Nesterov */
  x->b = n.p * x->b + g;
  x->a = a - n.lr * (n.r != 0.0f ? g + n.p * x->b : x->b);
#elif RULE == 2 /* Adam: p and q are 1 - beta, r is epsilon */
  x->b += (g - x->b) * n.p;
  x->c += (g * g - x->c) * n.q;
  x->a = a - n.lr * n.bias1 * x->b / (sqrt(x->c * n.bias2) + n.r);
#elif RULE == 3 || RULE == 4 /* RMSProp: q is 1 - alpha, r is epsilon, p momentum */
  x->b += (g * g - x->b) * n.q;
  const LANES d = g / (sqrt(x->b) + n.r);
#if RULE == 3
  x->a = a - n.lr * d;
#else
  x->c = n.p * x->c + d;
  x->a = a - n.lr * x->c;
#endif
#elif RULE == 5 /* average: p is 1 - decay */
  x->a = n.first ? g : x->a + (g - x->a) * n.p;
#else /* sum */
  x->a = n.first ? g : x->a + g;
#endif
}

#ifdef WANT_update_forward_group
#define STATE_READ(T, v, p, i, left)  { float lane[4]; FOUR_READ(T, lane, p, i, left) v = vload4(0, lane); }
#define STATE_STORE(T, v, p, i, left) { float lane[4]; vstore4(v, 0, lane); FOUR_STORE(T, p, i, left, lane) }
#define ARGS                                                                                                       \
  ARG(const float, lr), ARG(const long, count), ARG(const float, before), ARG(const float, after), TENSOR(0),      \
  const index_t n, const int decays, const float clip, const float l2, const float decay, const float p,           \
  const float q, const float r, const float log1, const float log2
BODY(update_forward_group_item)(const long item, ARGS) {
  if (item * 4 >= n) return;
  USE(const STORAGE(G), g0);
  USE(const STORAGE(T), a0);
  USE(STORAGE(T), new_a0);
  USE(const float, lr);
  USE(const long, count);
  USE(const float, before);
  USE(const float, after);
  const index_t i = (index_t)item * 4, left = n - i;
  FN(place) x;
  STATE_READ(G, x.g, g0, i, left)
  STATE_READ(T, x.a, a0, i, left)
#if STATES >= 2
  USE(const float, b0);
  USE(float, new_b0);
  STATE_READ(f32, x.b, b0, i, left)
#endif
#if STATES >= 3
  USE(const float, c0);
  USE(float, new_c0);
  STATE_READ(f32, x.c, c0, i, left)
#endif
  FN(change)(&x, NUMBERS(decays));
  STATE_STORE(T, x.a, new_a0, i, left)
#if STATES >= 2
  STATE_STORE(f32, x.b, new_b0, i, left)
#endif
#if STATES >= 3
  STATE_STORE(f32, x.c, new_c0, i, left)
#endif
}

KERNEL(update_forward_group)(ARGS) {
  FN(update_forward_group_item)((long)get_global_id(0), PASS(lr), PASS(count), PASS(before), PASS(after), PASS_TENSOR(0), n, decays,
            clip, l2, decay, p, q, r, log1, log2);
}
#else
#define ARGS                                                                                                     \
  ARG(const float, lr), ARG(const long, count), ARG(const float, before), ARG(const float, after), TENSOR(0),    \
  TENSOR(1), TENSOR(2), TENSOR(3), TENSOR(4), TENSOR(5), TENSOR(6), const index8_t begin, const index8_t length, \
  const index_t piece, const int decays, const float clip, const float l2, const float decay, const float p,     \
  const float q, const float r, const float log1, const float log2
BODY(update_forward_ref_item)(const long item, ARGS) {
  if (item >= (long)begin.s7) return;
  const int k = (item >= begin.s1) + (item >= begin.s2) + (item >= begin.s3) + (item >= begin.s4) +
                (item >= begin.s5) + (item >= begin.s6);
  index_t begins[8], lengths[8];
  vstore8(begin, 0, begins);
  vstore8(length, 0, lengths);
  PICK(const STORAGE(G), g);
  PICK(const STORAGE(T), a);
  PICK(STORAGE(T), new_a);
#if STATES >= 2
  PICK(const float, b);
  PICK(float, new_b);
#endif
#if STATES >= 3
  PICK(const float, c);
  PICK(float, new_c);
#endif
  USE(const float, lr);
  USE(const long, count);
  USE(const float, before);
  USE(const float, after);
  const FN(numbers) n = NUMBERS(decays >> k & 1);
  const index_t from = ((index_t)item - begins[k]) * piece, to = min(from + piece, lengths[k]);
  const index_t whole = (to - from) / 16 * 16;
  for (index_t turn = 0; turn < whole; turn += 16) {
    const index_t i = from + (index_t)IN_TURN(turn, whole);
    FN(place) x;
    x.g = LOAD16(G, g, i);
    x.a = LOAD16(T, a, i);
#if STATES >= 2
    x.b = vload16(0, b + i);
#endif
#if STATES >= 3
    x.c = vload16(0, c + i);
#endif
    FN(change)(&x, n);
    STORE16(T, new_a, i, x.a);
#if STATES >= 2
    vstore16(x.b, 0, new_b + i);
#endif
#if STATES >= 3
    vstore16(x.c, 0, new_c + i);
#endif
  }
#pragma clang loop vectorize(disable) unroll(disable)
  for (index_t i = from + whole; i < to; i++) {
    FN(place) x;
    x.g = LOAD(G, g, i);
    x.a = LOAD(T, a, i);
#if STATES >= 2
    x.b = b[i];
#endif
#if STATES >= 3
    x.c = c[i];
#endif
    FN(change)(&x, n);
    STORE(T, new_a, i, x.a.s0);
#if STATES >= 2
    new_b[i] = x.b.s0;
#endif
#if STATES >= 3
    new_c[i] = x.c.s0;
#endif
  }
}

KERNEL(update_forward_ref)(ARGS) {
  FN(update_forward_ref_item)((long)get_global_id(0), PASS(lr), PASS(count), PASS(before), PASS(after), PASS_TENSOR(0), PASS_TENSOR(1),
            PASS_TENSOR(2), PASS_TENSOR(3), PASS_TENSOR(4), PASS_TENSOR(5), PASS_TENSOR(6), begin, length, piece,
            decays, clip, l2, decay, p, q, r, log1, log2);
}
#endif
