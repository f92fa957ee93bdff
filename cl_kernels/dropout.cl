/* Dropout. Element i uses word i / 16 % 4 of Philox4x32-10 for (key, counter, i / 64 * 16 + i % 16), so that the random
 * numbers of sixteen consecutive elements form a vector. */
#include "philox.cl"

#ifdef WANT_dropout_forward_ref
static inline void FN(philox16)(uint k0, uint k1, uint16 *x) {
  for (int round = 0; round < 10; round++) {
    const uint16 h0 = mul_hi((uint16)(0xD2511F53u), x[0]), l0 = 0xD2511F53u * x[0];
    const uint16 h1 = mul_hi((uint16)(0xCD9E8D57u), x[2]), l1 = 0xCD9E8D57u * x[2];
    x[0] = h1 ^ x[1] ^ k0;
    x[1] = l1;
    x[2] = h0 ^ x[3] ^ k1;
    x[3] = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const long, counter), ARG(STORAGE(T), y), const index_t n, const index_t piece, \
      const uint k0, const uint k1, const uint threshold, const float scale
BODY(dropout_forward_ref_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin * 64 >= n) return;
  USE(const STORAGE(T), x);
  USE(const long, counter);
  USE(STORAGE(T), y);
  const uint16 lanes = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const ulong count = as_ulong(counter[0]);
  for (long block = begin; block < begin + piece && block * 64 < n; block++) {
    const ulong first = as_ulong(block) * 16;
    uint16 word[4];
    word[0] = (uint)first + lanes;
    word[1] = (uint)(first >> 32);
    word[2] = (uint)count;
    word[3] = (uint)(count >> 32);
    FN(philox16)(k0, k1, word);
    for (int k = 0; k < 4; k++) {
      const index_t at = (index_t)(block * 64 + k * 16);
      if (at + 16 <= n) {
        const float16 v = select(LOAD16(T, x, at) * scale, (float16)(0.0f), word[k] < threshold);
        STORE16(T, y, at, v);
      } else if (at < n) {
        uint lane[16];
        vstore16(word[k], 0, lane);
        for (int l = 0; l < n - at; l++) STORE(T, y, at + l, lane[l] < threshold ? 0.0f : LOAD(T, x, at + l) * scale);
      }
    }
  }
}

KERNEL(dropout_forward_ref)(ARGS) {
  FN(dropout_forward_ref_item)((long)get_global_id(0), PASS(x), PASS(counter), PASS(y), n, piece, k0, k1, threshold, scale);
}
#undef ARGS
#endif

#ifdef WANT_dropout_forward_part
/* x is a slice: its element i is number i / run * whole + first + i % run of the whole tensor. */
#define ARGS                                                                                                     \
  ARG(const STORAGE(T), x), ARG(const long, counter), ARG(STORAGE(T), y), const index_t n, const index_t piece, \
      const index_t run, const index_t whole, const index_t first, const uint k0, const uint k1, const uint threshold, \
      const float scale
BODY(dropout_forward_part_item)(const long item, ARGS) {
  const long begin = item * piece;
  if (begin >= n) return;
  USE(const STORAGE(T), x);
  USE(const long, counter);
  USE(STORAGE(T), y);
  const ulong count = as_ulong(counter[0]);
  for (long i = begin; i < begin + piece && i < n; i++) {
    const long at = i / run * whole + first + i % run;
    const ulong draw = as_ulong(at / 64 * 16 + at % 16);
    const uint4 word = FN(philox)(k0, k1, (uint4)((uint)draw, (uint)(draw >> 32), (uint)count, (uint)(count >> 32)));
    const uint drawn[4] = {word.s0, word.s1, word.s2, word.s3};
    STORE(T, y, (index_t)i, drawn[at / 16 % 4] < threshold ? 0.0f : LOAD(T, x, (index_t)i) * scale);
  }
}

KERNEL(dropout_forward_part)(ARGS) {
  FN(dropout_forward_part_item)((long)get_global_id(0), PASS(x), PASS(counter), PASS(y), n, piece, run, whole, first, k0, k1, threshold, scale);
}
#endif
