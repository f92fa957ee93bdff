/* An elementwise program over up to four operands of 32-bit words, of size (w, z, y, x) in row-major order; a stride of
 * 0 repeats an operand. */
KERNEL(eltwise)
(TENSOR(const uint, e0), const int4 e0_s, TENSOR(const uint, e1), const int4 e1_s, TENSOR(const uint, e2),
 const int4 e2_s, TENSOR(const uint, e3), const int4 e3_s, TENSOR(uint, y), const int4 size, const int operands,
 const int8 code, const float16 param) {
  PROGRAM(code, param)
  const int n = size.s0 * size.s1 * size.s2 * size.s3;
  int i0 = 0, i1 = 0, i2 = 0, i3 = 0;
  PIPELINE
  for (int at = 0; at < n; at++) {
    uint v[16];
    v[0] = e0[e0_at + i0 * e0_s.s0 + i1 * e0_s.s1 + i2 * e0_s.s2 + i3 * e0_s.s3];
    v[1] = operands > 1 ? e1[e1_at + i0 * e1_s.s0 + i1 * e1_s.s1 + i2 * e1_s.s2 + i3 * e1_s.s3] : 0;
    v[2] = operands > 2 ? e2[e2_at + i0 * e2_s.s0 + i1 * e2_s.s1 + i2 * e2_s.s2 + i3 * e2_s.s3] : 0;
    v[3] = operands > 3 ? e3[e3_at + i0 * e3_s.s0 + i1 * e3_s.s1 + i2 * e3_s.s2 + i3 * e3_s.s3] : 0;
    y[y_at + at] = program_run(codes, params, v);
    if (++i3 == size.s3) {
      i3 = 0;
      if (++i2 == size.s2) {
        i2 = 0;
        if (++i1 == size.s1) i1 = 0, i0++;
      }
    }
  }
}

KERNEL(eltwise_i64)
(TENSOR(const long, a), TENSOR(const long, b), TENSOR(long, y), const int n, const int a_step, const int b_step,
 const int function) {
  PIPELINE
  for (int i = 0; i < n; i++) {
    const ulong u = (ulong)a[a_at + i * a_step], v = (ulong)b[b_at + i * b_step];
    y[y_at + i] = (long)(function == 160 ? u + v : function == 161 ? u - v : u * v);
  }
}
