/* Philox4x32-10 (Salmon et al., SC'11): random numbers as a pure function of key, counter and element. */
#include "base/base.h"

void clade__philox(uint64_t key, uint64_t counter, uint64_t element, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t x[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)counter, (uint32_t)(counter >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * x[0], p1 = (uint64_t)0xCD9E8D57u * x[2];
    uint32_t y[4] = {(uint32_t)(p1 >> 32) ^ x[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ x[3] ^ k1, (uint32_t)p0};
    memcpy(x, y, sizeof x);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  memcpy(out, x, sizeof x);
}

double clade__uniform(uint64_t key, uint64_t counter, uint64_t element) {
  uint32_t x[4];
  clade__philox(key, counter, element / 4, x);
  return (double)(x[element % 4] >> 8) * 0x1p-24;
}
