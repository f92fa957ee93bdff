/* Dropout on GPUs. Element i uses word i / 16 % 4 of Philox4x32-10 for (key, counter, i / 64 * 16 + i % 16). A
 * work-item evaluates the generator once, for four elements that are 16 apart; its neighbors have the adjacent ones. */
#include "philox.cl"

KERNEL(dropout_forward_group)
(ARG(const STORAGE(T), x), ARG(const long, counter), ARG(STORAGE(T), y), const index_t n, const uint k0, const uint k1,
 const uint threshold, const float scale) {
  const long item = (long)get_global_id(0), first = item / 16 * 64 + item % 16;
  if (first >= n) return;
  USE(const STORAGE(T), x);
  USE(const long, counter);
  USE(STORAGE(T), y);
  const index_t at = (index_t)first;
  const ulong count = as_ulong(counter[0]);
  float lane[4];
#pragma unroll
  for (int l = 0; l < 4; l++) lane[l] = at + l * 16 < n ? LOAD(T, x, at + l * 16) : 0.0f;
  const uint4 word = FN(philox)(k0, k1, (uint4)((uint)item, (uint)(as_ulong(item) >> 32), (uint)count, (uint)(count >> 32)));
  const uint drawn[4] = {word.s0, word.s1, word.s2, word.s3};
#pragma unroll
  for (int l = 0; l < 4; l++)
    if (at + l * 16 < n) STORE(T, y, at + l * 16, drawn[l] < threshold ? 0.0f : lane[l] * scale);
}
