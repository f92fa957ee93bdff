/* Matrix products by NVIDIA's matrix units: f16 and bf16 with sums in float, and f32 rounded to tf32. A warp, 32
 * work-items in step, multiplies tiles of which each work-item holds a part; its lane says which. The arguments are those
 * of gemm.cl.
 *
 * A work-group does BM x BN results, each of its warps TM x TN of them. BK words of the inner axis go by at
 * a time (a word: two halves, or a float). STAGES slices of both operands have room in local memory: one is multiplied
 * while the next ones are on their way. LEFT_DEEP, RIGHT_DEEP: what lies side by side there, and in the operand, follows
 * each other along the inner axis; else across it.
 *
 * All is OpenCL C but for what six instructions do: cp.async and its commit_group and wait_group, ldmatrix, cvt.rna and
 * mma. With IMITATE they are OpenCL C too, with the layouts that the PTX manual gives, for tests on other devices. */
#define SINGLE_f32  1
#define SINGLE_f16  0
#define SINGLE_bf16 0
#define SINGLE      CLADE_PASTE(SINGLE_, T)
#if SINGLE
#define WORD 1
#define RAW  uint
#else
#define WORD 2
#define RAW  ushort
#endif
#define DEEP  (BK * WORD)
#define EACH  (4 * WORD) /* elements of 16 bytes: a copy's, and a line's of ldmatrix */
#define DOWN  (TM / 16)
#define WIDER (TN / 16)
#define WARPS (BM / TM * (BN / TN))
#define ITEMS (32 * WARPS)
/* Lines are so far apart that the words which a fragment takes at once lie in different banks. */
#define LINE(deep, lines) ((deep) ? DEEP + EACH : (lines) + 8)
#define ROOM(deep, lines) (((deep) ? (lines) : DEEP) * LINE(deep, lines))

/* ---- the instructions ---- */
#if IMITATE
#define UNROLL _Pragma("nounroll") /* of loops in full PoCL compiles for half a minute */
/* Half of the work-items copy at once and the others as late as they may: a wait that is too short shows, and a slice
 * that is brought too early. */
#define BRING(s)     SLICES(s, id % 2)
#define COMMIT       asked++;
#define ARRIVED(n)   for (; arrived + (n) < asked; arrived++) SLICES(arrived, id % 2 == 0)
static inline void FN(copy)(__local RAW *to, const __global RAW *from, const int bytes) {
  for (int i = 0; i < EACH; i++) to[i] = i * (int)sizeof(RAW) < bytes ? from[i] : (RAW)0;
}
static inline uint FN(narrow)(const uint word) { return (word + 0x1000u) & 0xffffe000u; }
#define NUMBER_f16(h)  vload_half(0, (const half *)&(h))
#define NUMBER_bf16(h) as_float((uint)(h) << 16)
static inline float FN(dot)(float sum, const uint a, const uint b) {
#if SINGLE
  return fma(as_float(a), as_float(b), sum);
#else
  for (int i = 0; i < 2; i++) {
    const ushort x = (ushort)(a >> 16 * i), y = (ushort)(b >> 16 * i);
    sum = fma(CLADE_PASTE(NUMBER_, T)(x), CLADE_PASTE(NUMBER_, T)(y), sum);
  }
  return sum;
#endif
}
/* Rows are distributed as columns are: lane 4 i + w holds words w and w + 4 of lines i and i + 8. Of a result's lines
 * lane 4 i + j holds i and i + 8, and columns 2 j and 2 j + 1. */
static inline void FN(multiply)(float *sum, const __local uint (*a)[4], const __local uint (*b)[4], const int half_at,
                                const int lane) {
  for (int c = 0; c < 4; c++)
    for (int w = 0; w < 8; w++)
      sum[c] = FN(dot)(sum[c], a[lane / 4 * 4 + w % 4][c / 2 + w / 4 * 2],
                       b[(lane % 4 * 2 + c % 2) * 4 + w % 4][half_at + w / 4 * 2]);
}
#define MULTIPLY(sum, i, j, half_at) FN(multiply)(sum, held[warp][i], held[warp][DOWN + (j)], half_at, lane)
#define EXCHANGE                                                                            \
  barrier(CLK_LOCAL_MEM_FENCE);                                                             \
  for (int r = 0; r < 4; r++) {                                                             \
    for (int i = 0; i < DOWN; i++) held[warp][i][lane][r] = down[i][r];                     \
    for (int j = 0; j < WIDER; j++) held[warp][DOWN + j][lane][r] = wide[j][r];             \
  }                                                                                         \
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define UNROLL     _Pragma("unroll")
#define BRING(s)   SLICES(s, true)
#define COMMIT     __asm__ volatile("cp.async.commit_group;" ::: "memory");
#define ARRIVED(n) __asm__ volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
/* 16 bytes, of which those behind `bytes` become zeros. */
static inline void FN(copy)(__local RAW *to, const __global RAW *from, const int bytes) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint)(size_t)to), "l"((ulong)(size_t)from),
                   "r"(bytes)
                   : "memory");
}
/* To tf32: ten bits, ties away from zero. */
static inline uint FN(narrow)(const uint word) {
  uint to;
  __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(to) : "f"(as_float(word)));
  return to;
}
#define MMA_f32  "m16n8k8.row.col.f32.tf32.tf32.f32"
#define MMA_f16  "m16n8k16.row.col.f32.f16.f16.f32"
#define MMA_bf16 "m16n8k16.row.col.f32.bf16.bf16.f32"
static inline void FN(multiply)(float *sum, const uint *a, const uint low, const uint high) {
  __asm__ volatile("mma.sync.aligned." CLADE_PASTE(MMA_, T) " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}
#define MULTIPLY(sum, i, j, half_at) FN(multiply)(sum, down[i], wide[j][half_at], wide[j][half_at + 2])
#define EXCHANGE
#define LDMATRIX(turned)                                                                        \
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4" turned ".shared.b16 {%0,%1,%2,%3}, [%4];"  \
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])              \
                   : "r"((uint)(size_t)(tile + FROM(lane)))                                   \
                   : "memory")
#endif

/* 16 lines of 8 words as mma takes them, of rows and of columns: word r of lane 4 i + w is number w + r / 2 * 4 of line
 * i + r % 2 * 8. For that ldmatrix takes eight lines for each r, of 16 bytes, and lane 8 r + i tells it where the i-th
 * begins. Of lines across the inner axis, turned, it makes what it makes of others; of floats it cannot. */
#define FROM(lane)                                                                       \
  (deep ? (line0 + (lane) % 16) * line + k0 + (lane) / 16 * EACH                         \
        : (k0 + (lane) / 16 * EACH + (lane) % 8) * line + line0 + (lane) / 8 % 2 * EACH)
__attribute__((always_inline)) static inline void FN(fragment)(uint *word, const __local RAW *tile, const bool deep,
                                                               const int line, const int line0, const int k0,
                                                               const int lane) {
  if (SINGLE && !deep) {
    UNROLL
    for (int r = 0; r < 4; r++) word[r] = tile[(k0 + r / 2 * 4 + lane % 4) * line + line0 + r % 2 * 8 + lane / 4];
  } else {
#if IMITATE
    for (int r = 0; r < 4; r++) {
      const int of = 8 * r + (deep ? lane / 4 : lane % 4 * 2), at = deep ? lane % 4 * 2 : lane / 4;
      const __local ushort *low = (const __local ushort *)(tile + FROM(of)) + at;
      const __local ushort *high = deep ? low + 1 : (const __local ushort *)(tile + FROM(of + 1)) + at;
      word[r] = *low | (uint)*high << 16;
    }
#else
    if (deep)
      LDMATRIX("");
    else
      LDMATRIX(".trans");
#endif
  }
  if (SINGLE)
    UNROLL
    for (int r = 0; r < 4; r++) word[r] = FN(narrow)(word[r]);
}

/* A slice of one operand: lines from `from` on of which `most` are there, and `steps` of the inner axis; zeros elsewhere.
 * whole: all 16 bytes begin at a multiple of that. */
__attribute__((always_inline)) static inline void FN(bring)(__local RAW *to, const __global RAW *from, const bool deep,
                                                            const int lines, const index_t most, const index_t steps,
                                                            const index_t line, const index_t step, const bool whole,
                                                            const int id) {
  for (int i = EACH * id; i < lines * DEEP; i += EACH * ITEMS) {
    const int n = deep ? i / DEEP : i % lines, k = deep ? i % DEEP : i / lines;
    const index_t left = deep ? (n < most ? steps - k : 0) : (k < steps ? most - n : 0);
    const int there = (int)max((index_t)0, min(left, (index_t)EACH));
    const __global RAW *source = there ? from + n * line + k * step : from;
    __local RAW *at = to + (deep ? n : k) * LINE(deep, lines) + (deep ? k : n);
    if (whole)
      FN(copy)(at, source, there * (int)sizeof(RAW));
    else
      for (int e = 0; e < EACH; e++) at[e] = e < there ? source[e * (deep ? step : line)] : (RAW)0;
  }
}
/* Whether copies of 16 bytes may take an operand: its lines lie `line` apart, elements of one side by side. */
#define WHOLE(p, line, next) ((next) == 1 && ((size_t)(p) | (size_t)(line) * sizeof(RAW)) % 16 == 0)
#define SLICES(s, wanted)                                                                                             \
  if ((wanted) && (s) < slices) {                                                                                     \
    const index_t k = (index_t)(s) * DEEP;                                                                            \
    FN(bring)(left[(s) % STAGES], a + k * a_s.s7, LEFT_DEEP, BM, rows, depth - k, a_s.s6, a_s.s7, left_whole, id);  \
    FN(bring)(right[(s) % STAGES], b + k * b_s.s6, RIGHT_DEEP, BN, columns, depth - k, b_s.s7, b_s.s6, right_whole, \
              id);                                                                                                    \
  }

#define EPILOGUE_AT(strides) BATCH_OFFSET(dims, strides, matrix)
GROUP(ITEMS, 1, 1) KERNEL(gemm_forward_warp)
(ARG(const STORAGE(T), a), ARG(const STORAGE(TB), b), ARG(STORAGE(OUT), y), const index8_t dims, const index_t depth,
 const index8_t a_s, const index8_t b_s, const float alpha EPILOGUE_ARGS) {
  __local RAW left[STAGES][ROOM(LEFT_DEEP, BM)] __attribute__((aligned(16)));
  __local RAW right[STAGES][ROOM(RIGHT_DEEP, BN)] __attribute__((aligned(16)));
#if IMITATE
  __local uint held[WARPS][DOWN + WIDER][32][4];
  int asked = 0, arrived = 0;
#endif
  const index_t matrix = (index_t)get_group_id(2);
  if (matrix >= BATCHES(dims)) return; /* the whole group */
  const index_t row0 = (index_t)get_group_id(1) * BM, column0 = (index_t)get_group_id(0) * BN;
  const index_t rows = dims.s6 - row0, columns = dims.s7 - column0;
  const int id = (int)get_local_id(0), lane = id % 32, warp = id / 32;
  const int y0 = warp / (BN / TN) * TM, x0 = warp % (BN / TN) * TN;
  const __global RAW *a = (const __global RAW *)(a_base + a_at + BATCH_OFFSET(dims, a_s, matrix) + row0 * a_s.s6);
  const __global RAW *b = (const __global RAW *)(b_base + b_at + BATCH_OFFSET(dims, b_s, matrix) + column0 * b_s.s7);
  const bool left_whole = LEFT_DEEP ? WHOLE(a, a_s.s6, a_s.s7) : WHOLE(a, a_s.s7, a_s.s6);
  const bool right_whole = RIGHT_DEEP ? WHOLE(b, b_s.s7, b_s.s6) : WHOLE(b, b_s.s6, b_s.s7);
  const int slices = (int)((depth + DEEP - 1) / DEEP);
  USE(STORAGE(OUT), y);
  EPILOGUE_USE
  y += matrix * dims.s6 * dims.s7;
  float sum[DOWN][2 * WIDER][4];
  UNROLL
  for (int i = 0; i < DOWN * 2 * WIDER * 4; i++) sum[i / (8 * WIDER)][i / 4 % (2 * WIDER)][i % 4] = 0.0f;
  for (int s = 0; s < STAGES - 1; s++) {
    BRING(s)
    COMMIT
  }
  for (int s = 0; s < slices; s++) {
    ARRIVED(STAGES - 2)
    barrier(CLK_LOCAL_MEM_FENCE); /* of all work-items; and nobody is at the slice before this one any more */
    BRING(s + STAGES - 1)
    COMMIT
    UNROLL
    for (int k = 0; k < DEEP; k += 8 * WORD) {
      uint down[DOWN][4], wide[WIDER][4];
      UNROLL
      for (int i = 0; i < DOWN; i++)
        FN(fragment)(down[i], left[s % STAGES], LEFT_DEEP, LINE(LEFT_DEEP, BM), y0 + 16 * i, k, lane);
      UNROLL
      for (int j = 0; j < WIDER; j++)
        FN(fragment)(wide[j], right[s % STAGES], RIGHT_DEEP, LINE(RIGHT_DEEP, BN), x0 + 16 * j, k, lane);
      EXCHANGE
      UNROLL
      for (int i = 0; i < DOWN; i++)
        UNROLL
        for (int j = 0; j < 2 * WIDER; j++) MULTIPLY(sum[i][j], i, j / 2, j % 2);
    }
  }
  UNROLL
  for (int i = 0; i < DOWN; i++)
    UNROLL
    for (int j = 0; j < 2 * WIDER; j++)
      UNROLL
      for (int c = 0; c < 4; c++) {
        const index_t row = row0 + y0 + 16 * i + lane / 4 + c / 2 * 8;
        const index_t column = column0 + x0 + 8 * j + lane % 4 * 2 + c % 2;
        if (row < dims.s6 && column < dims.s7) {
          const COMPUTE(T) i0 = sum[i][j][c] * alpha;
          EPILOGUE
          STORE(OUT, y, row * dims.s7 + column, r);
        }
      }
}
#undef SINGLE_f32
#undef SINGLE_f16
#undef SINGLE_bf16
#undef SINGLE
#undef WORD
#undef RAW
#undef DEEP
#undef EACH
#undef DOWN
#undef WIDER
#undef WARPS
#undef ITEMS
#undef LINE
#undef ROOM
#undef UNROLL
#undef BRING
#undef COMMIT
#undef ARRIVED
#undef NUMBER_f16
#undef NUMBER_bf16
#undef MULTIPLY
#undef EXCHANGE
#undef MMA_f32
#undef MMA_f16
#undef MMA_bf16
#undef LDMATRIX
#undef FROM
#undef WHOLE
#undef SLICES
#undef EPILOGUE_AT
