/* Philox4x32-10, a counter-based random number generator: four words from a key and a counter. */
static inline uint4 FN(philox)(uint k0, uint k1, uint4 x) {
  for (int round = 0; round < 10; round++) {
    const uint h0 = mul_hi(0xD2511F53u, x.s0), l0 = 0xD2511F53u * x.s0;
    const uint h1 = mul_hi(0xCD9E8D57u, x.s2), l1 = 0xCD9E8D57u * x.s2;
    x = (uint4)(h1 ^ x.s1 ^ k0, l1, h0 ^ x.s3 ^ k1, l0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}
