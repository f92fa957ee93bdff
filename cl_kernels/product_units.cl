/* The products of NVIDIA's matrix units (product.cl): per warp, of f16, bf16, bytes, f8 and, rounded to tf32, f32; with
 * WARPGROUP per four warps, of the same types, by Hopper's wgmma.
 *
 * wgmma reads only 16-bit operands that are contiguous across the inner axis. Others are transposed on the way to local
 * memory, so that tiles always lie along it (ALONG).
 *
 * The units add products of f8 with about 14 bits, so these sums are short, and are added in f32 (SHORT_SUMS).
 *
 * With IMITATE the instructions are emulated in OpenCL C, with the layouts of the PTX manual, for tests on other
 * devices. */
#define WORD_f32    1 /* elements in a word of four bytes */
#define WORD_f16    2
#define WORD_bf16   2
#define WORD_i8     4
#define WORD_u8     4
#define WORD_f8e4m3 4
#define WORD        CLADE_PASTE(WORD_, T)
#if WORD == 4
#define RAW uchar
#elif WORD == 2
#define RAW ushort
#else
#define RAW uint
#endif
#define SHORT_SUMS (WORD == 4 && !INTEGER)
#define DEEP  (BK * WORD)
#define EACH   (4 * WORD) /* elements in 16 bytes: in a copy, and in a line of ldmatrix */
#define INNER  (8 * WORD) /* steps of the inner axis that an instruction multiplies */
#define DOWN   (TM / 16)  /* a warp has DOWN x ACROSS fragments of 16 x 16 results */
#define ACROSS (TN / 16)
#define WARPS (BM / TM * (BN / TN))
#define ITEMS (32 * WARPS)
#if WARPGROUP
/* Operands are in wgmma's layout with 128-byte swizzle: lines of 128 bytes, in which the pieces of 16 bytes are
 * permuted by the line's number. If the tile is contiguous across the inner axis, each 64 of its lines form a separate
 * block. BK is 32 words, one line. */
#define ALONG(deep) ((deep) || WORD != 2)
#define PLACE(deep, lines, n, k) \
  (ALONG(deep) ? (n) * DEEP + ((k) ^ (n) % 8 * EACH) : ((n) / 64 * DEEP + (k)) * 64 + ((n) % 64 ^ (k) % 8 * 8))
#define ROOM(deep, lines) ((lines) * DEEP)
#define BEGINS 1024
#define COPIES UNROLL       /* a group occupies a compute unit alone, so there are enough registers */
#define COMING (STAGES - 2) /* slices being copied; one is multiplied, and products of another may be running */
#else
/* Lines are padded so that the words of a fragment are in different banks, and aligned to 16 bytes. */
#define ALONG(deep)       (deep)
#define PADDING           (WORD == 4 ? 16 : 8)
#define LINE(deep, lines) ((deep) ? DEEP + EACH : (lines) + PADDING)
#define PLACE(deep, lines, n, k) (((deep) ? (n) : (k)) * LINE(deep, lines) + ((deep) ? (k) : (n)))
#define ROOM(deep, lines) (((deep) ? (lines) : DEEP) * LINE(deep, lines))
#define BEGINS 16
#define COPIES _Pragma("nounroll")
#define COMING (STAGES - 1)
#endif

/* ---- asynchronous copies ---- */
#if IMITATE
/* Half of the work-items copy at once, and the others as late as possible, so that tests detect missing waits and
 * premature copies. */
#define BRING(s)     SLICES(s, id % 2)
#define COMMIT       asked++;
#define ARRIVED(n)   for (; arrived + (n) < asked; arrived++) SLICES(arrived, id % 2 == 0)
static inline void FN(copy)(__local RAW *to, const __global RAW *from, const int bytes) {
  for (int i = 0; i < EACH; i++) to[i] = i * (int)sizeof(RAW) < bytes ? from[i] : (RAW)0;
}
/* The numbers that the unit multiplies: of f32 it reads the upper 19 bits. */
#define NUMBER_f32(x)    as_float((x) & 0xffffe000u)
#define NUMBER_f16(x)    vload_half(0, (const half *)&(x))
#define NUMBER_bf16(x)   as_float((uint)(x) << 16)
#define NUMBER_i8(x)     (uint)(int)(char)(x)
#define NUMBER_u8(x)     (uint)(x)
#define NUMBER_f8e4m3(x) clade_small(x, CLADE_FORMAT(f8e4m3))
#if INTEGER
#define MULTIPLY_ADD(a, b, sum) ((sum) + (a) * (b))
#else
#define MULTIPLY_ADD(a, b, sum) fma(a, b, sum)
#endif
#else
#define BRING(s)   SLICES(s, true)
#define COMMIT     __asm__ volatile("cp.async.commit_group;" ::: "memory");
#define ARRIVED(n) __asm__ volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); SEEN
/* Copies 16 bytes, of which the first `bytes` come from memory; the others are zero. */
static inline void FN(copy)(__local RAW *to, const __global RAW *from, const int bytes) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint)(size_t)to), "l"((ulong)(size_t)from),
                   "r"(bytes)
                   : "memory");
}
#define TEXT_OF(x)  #x
#define TEXT(x)     TEXT_OF(x)
#define PTX_f32     "tf32"
#define PTX_f16     "f16"
#define PTX_bf16    "bf16"
#define PTX_i8      "s8"
#define PTX_u8      "u8"
#define PTX_f8e4m3  "e4m3"
#define PTX_SIDES   CLADE_PASTE(PTX_, LEFT_TYPE) "." CLADE_PASTE(PTX_, RIGHT_TYPE)
#define DEPTH_1     "k8"
#define DEPTH_2     "k16"
#define DEPTH_4     "k32"
#define DEPTH       CLADE_PASTE(DEPTH_, WORD)
#if INTEGER
#define PTX_SUM   "s32"
#define IN_OUT(x) "+r"(x)
#else
#define PTX_SUM   "f32"
#define IN_OUT(x) "+f"(x)
#endif
#endif

/* Composes a word of two elements by an instruction (prmt), since compilers split shifts again and need more registers. */
static inline uint FN(pair)(const uint low, const uint high, const int bits) {
#if IMITATE
  return low | high << bits;
#else
  uint word;
  if (bits == 16)
    __asm__("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(word) : "r"(low), "r"(high));
  else
    __asm__("prmt.b32 %0, %1, %2, 0x7740;" : "=r"(word) : "r"(low), "r"(high)); /* the fourth byte of `high` is zero */
  return word;
#endif
}

#if WARPGROUP
/* ---- four warps: 64 rows by all columns, 32 bytes of the inner axis at a time ---- */
/* Descriptor of an operand, in units of 16 bytes: start; distance of blocks of 64 lines (used only if the tile is
 * contiguous across the inner axis); distance of groups of eight lines; swizzle. */
#define BLOCKS_APART(deep) (ALONG(deep) ? 1 : DEEP * 128 >> 4)
#define OPERAND(at, deep) \
  ((ulong)((at) & 0x3ffff) >> 4 | (ulong)BLOCKS_APART(deep) << 16 | (ulong)(1024 >> 4) << 32 | (ulong)1 << 62)
/* Offset of step k of the inner axis in bytes: within a line, or whole lines. */
#define ON(deep, k)      (ALONG(deep) ? (k) * (int)sizeof(RAW) : (k) * 128)
#define LEFT_OF(s, k)    OPERAND(ADDRESS(left, s) + (uint)(warp / 4 * 64 * 128 + ON(LEFT_DEEP, k)), LEFT_DEEP)
#define RIGHT_OF(s, k)   OPERAND(ADDRESS(right, s) + (uint)ON(RIGHT_DEEP, k), RIGHT_DEEP)
#if IMITATE
#define ADDRESS(slices, s) (uint)((s) % STAGES * (int)sizeof((slices)[0]))
/* The element at line n, step k of a descriptor's operand, by the PTX manual. */
static inline RAW FN(element)(const __local RAW *base, const ulong operand, const bool along, const int n, const int k) {
  const uint apart = (uint)(operand >> 16 & 0x3fff) << 4, groups = (uint)(operand >> 32 & 0x3fff) << 4;
  const uint inside = along ? n % 8 * 128 + n / 8 * groups + k * (int)sizeof(RAW)
                            : n % 64 * 2 + n / 64 * apart + k % 8 * 128 + k / 8 * groups;
  const uint at = ((uint)(operand & 0x3fff) << 4) + inside;
  return base[(at ^ (at >> 3 & 0x70)) / sizeof(RAW)];
}
/* Computes only results that exist, since simulators are slow. Half of the work-items multiply a slice as late as
 * possible, so that tests detect slices that are overwritten too early. */
#define SLICE(s)                                                                                                        \
  for (int j = 0; j < TN / 8; j++)                                                                                      \
    for (int c = 0; c < 4; c++)                                                                                         \
      if (row0 + RESULT_ROW(0, c) < rows && column0 + RESULT_COLUMN(j, c) < columns)                                    \
        for (int k = 0; k < DEEP; k += INNER)                                                                           \
          for (int e = 0; e < INNER; e++) {                                                                             \
            const RAW a_e = FN(element)(left[0], LEFT_OF(s, k), ALONG(LEFT_DEEP), warp % 4 * 16 + lane / 4 + c / 2 * 8, e); \
            const RAW b_e = FN(element)(right[0], RIGHT_OF(s, k), ALONG(RIGHT_DEEP), j * 8 + lane % 4 * 2 + c % 2, e);  \
            sum[0][j][c] = MULTIPLY_ADD(CLADE_PASTE(NUMBER_, LEFT_TYPE)(a_e), CLADE_PASTE(NUMBER_, RIGHT_TYPE)(b_e),    \
                                        sum[0][j][c]);                                                                  \
          }
#define HELD         int issued = 0, ended = 0;
#define PRODUCTS(s)  { if (id % 2) SLICE(s) issued++; }
#define ENDED(n)     for (; ended + (n) < issued; ended++) if (id % 2 == 0) SLICE(ended)
#define SEEN
#else
#define ADDRESS(slices, s) (uint)(size_t)(slices)[(s) % STAGES]
#define SEEN               __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory");
/* The OpenCL compiler does not know these instructions, so they are emitted as comments; src/cl/late.c removes the mark
 * in the compiled text. */
#define LATE(instruction) "//!90a " instruction
#define NUMBERS_64                                                                                              \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
  "%29,%30,%31}, %32, %33"
#define NUMBERS_128                                                                                             \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
  "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,"    \
  "%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65"
#define NUMBERS_256                                                                                             \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28," \
  "%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,"    \
  "%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,"    \
  "%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,"  \
  "%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,"   \
  "%127}, %128, %129"
#define F4(to, i)          IN_OUT(to[0][(i) / 4][0]), IN_OUT(to[0][(i) / 4][1]), IN_OUT(to[0][(i) / 4][2]), IN_OUT(to[0][(i) / 4][3])
#define F16(to, i)         F4(to, i), F4(to, i + 4), F4(to, i + 8), F4(to, i + 12)
#define F32(to, i)         F16(to, i), F16(to, i + 16)
#define SUMS_64(to)        F32(to, 0)
#define SUMS_128(to)       F32(to, 0), F32(to, 32)
#define SUMS_256(to)       F32(to, 0), F32(to, 32), F32(to, 64), F32(to, 96)
#define ALL_SUMS(to)       CLADE_PASTE(SUMS_, TN)(to)
/* Factors of the operands, 1 or -1, and for 16-bit types whether they lie across. */
#define ACROSS_0 "1"
#define ACROSS_1 "0"
#if INTEGER
#define FACTORS ""
#elif WORD == 2
#define FACTORS ", 1, 1, " CLADE_PASTE(ACROSS_, LEFT_DEEP) ", " CLADE_PASTE(ACROSS_, RIGHT_DEEP)
#else
#define FACTORS ", 1, 1"
#endif
/* keeps: "1": adds to the sums; "0": replaces them. */
#define MULTIPLY(to, s, k, keeps)                                                                                          \
  __asm__ volatile(LATE("wgmma.mma_async.sync.aligned.m64n" TEXT(TN) DEPTH "." PTX_SUM "." PTX_SIDES " ")                      \
                       CLADE_PASTE(NUMBERS_, TN) ", " keeps FACTORS ";"                                                    \
                   : ALL_SUMS(to)                                                                                          \
                   : "l"(LEFT_OF(s, k)), "l"(RIGHT_OF(s, k)));
#define FENCE     __asm__ volatile(LATE("wgmma.fence.sync.aligned;") ::: "memory");
#define COMMITTED __asm__ volatile(LATE("wgmma.commit_group.sync.aligned;") ::: "memory");
#if SHORT_SUMS
/* The wait names the sums, so that the compiler does not read them before it. */
#define PRODUCTS(s)                                                                               \
  {                                                                                               \
    float part[DOWN][2 * ACROSS][4];                                                              \
    UNROLL                                                                                        \
    for (int i = 0; i < 8 * ACROSS; i++) part[0][i / 4][i % 4] = 0;                               \
    FENCE                                                                                         \
    MULTIPLY(part, s, 0, "0")                                                                     \
    UNROLL                                                                                        \
    for (int k = INNER; k < DEEP; k += INNER) MULTIPLY(part, s, k, "1")                           \
    COMMITTED                                                                                     \
    __asm__ volatile(LATE("wgmma.wait_group.sync.aligned 0;") : ALL_SUMS(part) : : "memory");     \
    UNROLL                                                                                        \
    for (int i = 0; i < 8 * ACROSS; i++) sum[0][i / 4][i % 4] += part[0][i / 4][i % 4];           \
  }
#else
#define PRODUCTS(s) \
  FENCE             \
  UNROLL            \
  for (int k = 0; k < DEEP; k += INNER) MULTIPLY(sum, s, k, "1") \
  COMMITTED
#endif
#define ENDED(n) __asm__ volatile(LATE("wgmma.wait_group.sync.aligned %0;") ::"n"(n) : "memory");
/* Names the accumulators, which compilers otherwise read before the wait. */
#define ENDED_ALL __asm__ volatile(LATE("wgmma.wait_group.sync.aligned 0;") : ALL_SUMS(sum) : : "memory");
#define HELD
#endif
#else
/* ---- one warp ---- */
#if IMITATE
#define HELD __local uint held[WARPS][DOWN + ACROSS][32][4];
#define SEEN
static inline uint FN(narrow)(const uint word) { return (word + 0x1000u) & 0xffffe000u; }
static inline NUMBER FN(dot)(NUMBER sum, const uint a, const uint b) {
  for (int i = 0; i < WORD; i++) {
    const RAW x = (RAW)(a >> 32 / WORD * i), y = (RAW)(b >> 32 / WORD * i);
    sum = MULTIPLY_ADD(CLADE_PASTE(NUMBER_, LEFT_TYPE)(x), CLADE_PASTE(NUMBER_, RIGHT_TYPE)(y), sum);
  }
  return sum;
}
/* Both operands have the same distribution over lanes: lane 4 i + w holds words w and w + 4 of lines i and i + 8. Of
 * the results, lane 4 i + j holds rows i and i + 8, and columns 2 j and 2 j + 1. */
static inline void FN(multiply)(NUMBER *sum, const __local uint (*a)[4], const __local uint (*b)[4], const int half_at,
                                const int lane) {
  for (int c = 0; c < 4; c++)
    for (int w = 0; w < 8; w++)
      sum[c] = FN(dot)(sum[c], a[lane / 4 * 4 + w % 4][c / 2 + w / 4 * 2],
                       b[(lane % 4 * 2 + c % 2) * 4 + w % 4][half_at + w / 4 * 2]);
}
#define MULTIPLY(sum, i, j, half_at) FN(multiply)(sum, held[warp][i], held[warp][DOWN + (j)], half_at, lane)
#define EXCHANGE                                                                        \
  barrier(CLK_LOCAL_MEM_FENCE);                                                         \
  for (int r = 0; r < 4; r++) {                                                         \
    for (int i = 0; i < DOWN; i++) held[warp][i][lane][r] = left_words[i][r];           \
    for (int j = 0; j < ACROSS; j++) held[warp][DOWN + j][lane][r] = right_words[j][r]; \
  }                                                                                     \
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define HELD
#define SEEN
/* Rounds to tf32: ten bits, ties away from zero. */
static inline uint FN(narrow)(const uint word) {
  uint to;
  __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(to) : "f"(as_float(word)));
  return to;
}
static inline void FN(multiply)(NUMBER *sum, const uint *a, const uint low, const uint high) {
#if SHORT_SUMS
  float to[4] = {0, 0, 0, 0};
#else
  NUMBER *to = sum;
#endif
  __asm__ volatile("mma.sync.aligned.m16n8" DEPTH ".row.col." PTX_SUM "." PTX_SIDES "." PTX_SUM
                   " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : IN_OUT(to[0]), IN_OUT(to[1]), IN_OUT(to[2]), IN_OUT(to[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
#if SHORT_SUMS
  for (int i = 0; i < 4; i++) sum[i] += to[i];
#endif
}
#define MULTIPLY(sum, i, j, half_at) FN(multiply)(sum, left_words[i], right_words[j][half_at], right_words[j][half_at + 2])
#define EXCHANGE
#define LDMATRIX(turned)                                                                     \
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4" turned ".shared.b16 {%0,%1,%2,%3}, [%4];" \
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])              \
                   : "r"((uint)(size_t)(tile + FROM(lane)))                                  \
                   : "memory")
#endif

/* Loads a fragment for mma, 16 lines of 8 words of either operand: word r of lane 4 i + w is word w + r / 2 * 4 of line
 * i + r % 2 * 8. ldmatrix reads eight lines of 16 bytes for each r; lane 8 r + i provides the address of line i. It can
 * transpose halves; floats and bytes that are contiguous across the inner axis are read one by one. */
#define FROM(lane)                                               \
  (deep ? (line0 + (lane) % 16) * line + k0 + (lane) / 16 * EACH \
        : (k0 + (lane) / 16 * EACH + (lane) % 8) * line + line0 + (lane) / 8 % 2 * EACH)
__attribute__((always_inline)) static inline void FN(fragment)(uint *word, const __local RAW *tile, const bool deep,
                                                               const int line, const int line0, const int k0,
                                                               const int lane) {
  if (WORD != 2 && !deep) {
    UNROLL
    for (int r = 0; r < 4; r++) {
      const __local RAW *from = tile + (k0 + (r / 2 * 4 + lane % 4) * WORD) * line + line0 + r % 2 * 8 + lane / 4;
      word[r] = from[0];
      if (WORD == 4) word[r] |= (uint)from[line] << 8 | (uint)from[2 * line] << 16 | (uint)from[3 * line] << 24;
    }
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
#if WORD == 1
  UNROLL
  for (int r = 0; r < 4; r++) word[r] = FN(narrow)(word[r]);
#endif
}

#define PRODUCTS(s)                                                                                              \
  UNROLL                                                                                                         \
  for (int k = 0; k < DEEP; k += INNER) {                                                                        \
    uint left_words[DOWN][4], right_words[ACROSS][4];                                                            \
    UNROLL                                                                                                       \
    for (int i = 0; i < DOWN; i++)                                                                               \
      FN(fragment)(left_words[i], left[(s) % STAGES], LEFT_DEEP, LINE(LEFT_DEEP, BM), y0 + 16 * i, k, lane);     \
    UNROLL                                                                                                       \
    for (int j = 0; j < ACROSS; j++)                                                                             \
      FN(fragment)(right_words[j], right[(s) % STAGES], RIGHT_DEEP, LINE(RIGHT_DEEP, BN), x0 + 16 * j, k, lane); \
    EXCHANGE                                                                                                     \
    UNROLL                                                                                                       \
    for (int i = 0; i < DOWN; i++)                                                                               \
      UNROLL                                                                                                     \
      for (int j = 0; j < 2 * ACROSS; j++) MULTIPLY(sum[i][j], i, j / 2, j % 2);                                 \
  }
#define ENDED(n)
#endif

#define RESULT_ROW(i, c) (y0 + 16 * (i) + lane / 4 + (c) / 2 * 8)
#define RESULT_COLUMN(j, c) (x0 + 8 * (j) + lane % 4 * 2 + (c) % 2)
#define RESULTS                                                                        \
  UNROLL                                                                               \
  for (int i = 0; i < DOWN; i++)                                                       \
    UNROLL                                                                             \
    for (int j = 0; j < 2 * ACROSS; j++)                                               \
      UNROLL                                                                           \
      for (int c = 0; c < 4; c++)                                                      \
        if (row0 + RESULT_ROW(i, c) < rows && column0 + RESULT_COLUMN(j, c) < columns) \
          PUT(sum[i][j][c], row0 + RESULT_ROW(i, c), column0 + RESULT_COLUMN(j, c))
#define ITEM_PLACE                                                     \
  const int id = (int)get_local_id(0), lane = id % 32, warp = id / 32; \
  const int y0 = warp / (BN / TN) * TM, x0 = warp % (BN / TN) * TN;
#define SUMS                       \
  NUMBER sum[DOWN][2 * ACROSS][4]; \
  UNROLL                           \
  for (int i = 0; i < DOWN * 2 * ACROSS * 4; i++) sum[i / (8 * ACROSS)][i / 4 % (2 * ACROSS)][i % 4] = 0;
#define TILES                                                                       \
  __local RAW left[STAGES][ROOM(LEFT_DEEP, BM)] __attribute__((aligned(BEGINS)));   \
  __local RAW right[STAGES][ROOM(RIGHT_DEEP, BN)] __attribute__((aligned(BEGINS))); \
  HELD
#define ELEMENT(T, p, at) ((const __global RAW *)(p))[at]
#define SLICE_STEPS       DEEP
