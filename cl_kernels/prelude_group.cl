/* How the work-items of a group compute something together: macros only, which cost nothing in programs that do not use
 * them. Follows the other preludes.
 *
 * A one-dimensional work-group consists of BESIDE teams of TEAM work-items, powers of two defined by src/op/group.c.
 * Each team has a line: `n` elements at a stride of `inner`. With SPREAD 0, lines are rows (inner is 1), and the items
 * of a team are consecutive. With SPREAD 1, lines are adjacent, and consecutive items belong to different teams. In
 * both cases neighboring items read neighboring elements.
 *
 *   KERNEL(acme_sums)(ARG(const STORAGE(T), x), ARG(float, y), const index_t lines, const index_t n, const index_t inner) {
 *     TEAM_ROOM(float2, room);
 *     if (TEAM_FIRST >= lines) return;             // the whole group, since all of its items take part in exchanges
 *     USE(const STORAGE(T), x);
 *     USE(float, y);
 *     const bool own = TEAM_LINE < lines;          // a team behind the last line takes part without elements
 *     const index_t line = TEAM_LINE, base = line / inner * n * inner + line % inner, count = own ? n : 0;
 *     TEAM_FLOAT s = 0, lost = 0;
 *     TEAM_FOR(i, count) TEAM_TAKE(s, lost, TEAM_LOAD(T, x, base, i, count, inner, false, 0.0f))
 *     float2 sum;
 *     TEAM_PAIR(sum, s, lost);
 *     TEAM_REDUCE(float2, sum, room, TEAM_ADD)
 *     if (TEAM_TELLS(lines)) y[line] = TEAM_TOTAL(sum);
 *   }
 *
 * The order of a reduction depends only on TEAM, not on how work-items exchange values, so the bits are reproducible.
 */

/* ---- positions ---- */
#define TEAM_ITEM  ((int)get_local_id(0))
#define TEAM_LANE  (SPREAD ? TEAM_ITEM / BESIDE : TEAM_ITEM % TEAM) /* index in the team */
#define TEAM_FIRST ((long)get_group_id(0) * BESIDE)                 /* first line of the group */
#define TEAM_LINE  (TEAM_FIRST + (SPREAD ? TEAM_ITEM % BESIDE : TEAM_ITEM / TEAM))
/* True for the item that writes its team's result. Both conditions are evaluated at once: for `own && lane == 0` inside
 * another `if (own)`, LLVM 14 makes all items store when PoCL vectorizes. */
#define TEAM_TELLS(lines) ((TEAM_LINE < (lines)) & (TEAM_LANE == 0))

/* ---- elements: four at a time in rows, one at a time in adjacent lines ---- */
#define TEAM_PIECE   (SPREAD ? 1 : 4)
#define CLADE_TEAM_FLOAT_0 float4
#define CLADE_TEAM_FLOAT_1 float
#define TEAM_FLOAT   CLADE_PASTE(CLADE_TEAM_FLOAT_, SPREAD)
/* Loop over this item's pieces of a line of n elements. Not vectorized, since on PoCL 3.1 LLVM 14 generates reads
 * beyond the line. */
#define TEAM_FOR(i, n)                           \
  _Pragma("clang loop vectorize(disable)")       \
  for (index_t i = (index_t)TEAM_LANE * TEAM_PIECE; i < (n); i += TEAM * TEAM_PIECE)
/* The same with single elements, for rows too. */
#define TEAM_EACH(i, n)                          \
  _Pragma("clang loop vectorize(disable)")       \
  for (index_t i = (index_t)TEAM_LANE; i < (n); i += TEAM)
/* Four aligned elements, moved by one instruction; vload4 and vstore4 may take four. */
#define CLADE_EVEN4(p) (((size_t)(p) & (4 * sizeof(*(p)) - 1)) == 0)
#define CLADE_GET4_f32(T, p)    (*(const __global float4 *)(p))
#define CLADE_GET4_f16(T, p)    LOADN(4, T, p, 0)
#define CLADE_GET4_bf16(T, p)   as_float4(convert_uint4(*(const __global ushort4 *)(p)) << 16)
#define CLADE_GET4_small(T, p)  LOADN(4, T, p, 0)
#define CLADE_PUT4_f32(T, p, v)   *(__global float4 *)(p) = (v)
#define CLADE_PUT4_f16(T, p, v)   STOREN(4, T, p, 0, v)
#define CLADE_PUT4_bf16(T, p, v)  STOREN(4, T, p, 0, v)
#define CLADE_PUT4_small(T, p, v) STOREN(4, T, p, 0, v)
/* True if all rows of n elements are aligned for TEAM_LOAD. */
#define TEAM_WHOLE(p, n) (!SPREAD && (n) % 4 == 0 && CLADE_EVEN4(p))
/* Elements of a line from i on, with `none` behind its end. `base`: start of the line; `whole`: TEAM_WHOLE holds. */
#define TEAM_LOAD(T, p, base, i, n, inner, whole, none) \
  CLADE_PASTE(CLADE_TEAM_LOAD_, SPREAD)(T, p, base, i, n, inner, whole, none)
#define CLADE_TEAM_LOAD_1(T, p, base, i, n, inner, whole, none) LOAD(T, p, (base) + (i) * (inner))
#define CLADE_TEAM_LOAD_0(T, p, base, i, n, inner, whole, none)                                               \
  ((whole) ? CLADE_ACCESS(CLADE_GET4, T)(T, (p) + ((base) + (i)))                                             \
           : (float4)(LOAD(T, p, (base) + (i)), (i) + 1 < (n) ? LOAD(T, p, (base) + (i) + 1) : (none),        \
                      (i) + 2 < (n) ? LOAD(T, p, (base) + (i) + 2) : (none),                                  \
                      (i) + 3 < (n) ? LOAD(T, p, (base) + (i) + 3) : (none)))
#define TEAM_STORE(T, p, base, i, n, inner, whole, v) \
  CLADE_PASTE(CLADE_TEAM_STORE_, SPREAD)(T, p, base, i, n, inner, whole, v)
#define CLADE_TEAM_STORE_1(T, p, base, i, n, inner, whole, v) STORE(T, p, (base) + (i) * (inner), v)
#define CLADE_TEAM_STORE_0(T, p, base, i, n, inner, whole, v)           \
  {                                                                     \
    const float4 team_v = (v);                                          \
    if (whole) {                                                        \
      CLADE_ACCESS(CLADE_PUT4, T)(T, (p) + ((base) + (i)), team_v);     \
    } else {                                                            \
      float team_lane[4];                                               \
      vstore4(team_v, 0, team_lane);                                    \
      _Pragma("clang loop vectorize(disable) unroll(disable)")          \
      for (int team_l = 0; team_l < 4 && (i) + team_l < (n); team_l++)  \
        STORE(T, p, (base) + (i) + team_l, team_lane[team_l]);          \
    }                                                                   \
  }

/* ---- partial results of a work-item ---- */
/* Compensated sum (Knuth's two-sum) in each lane of a TEAM_FLOAT; sum and compensation as one pair; and the pair's
 * value. */
#define TEAM_TAKE(s, lost, v)                                             \
  {                                                                       \
    const TEAM_FLOAT team_v = (v), team_sum = (s) + team_v, team_back = team_sum - (s); \
    (lost) += ((s) - (team_sum - team_back)) + (team_v - team_back);      \
    (s) = team_sum;                                                       \
  }
#define TEAM_PAIR(pair, s, lost) CLADE_PASTE(CLADE_TEAM_PAIR_, SPREAD)(pair, s, lost)
#define CLADE_TEAM_PAIR_1(pair, s, lost) pair = (float2)(s, lost)
#define CLADE_TEAM_PAIR_0(pair, s, lost)                                        \
  {                                                                             \
    float2 team_b = (float2)((s).s2, (lost).s2);                                \
    pair = (float2)((s).s0, (lost).s0);                                         \
    TEAM_ADD(pair, (float2)((s).s1, (lost).s1))                                 \
    TEAM_ADD(team_b, (float2)((s).s3, (lost).s3))                               \
    TEAM_ADD(pair, team_b)                                                      \
  }
#define TEAM_TOTAL(pair) CLADE_TOTAL((pair).x, (pair).y)
/* The larger of each lane, where NaN is the largest; and the largest of all lanes. */
#define TEAM_LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define TEAM_LARGEST(v)   CLADE_PASTE(CLADE_TEAM_LARGEST_, SPREAD)(v)
#define CLADE_TEAM_LARGEST_1(v) (v)
#define CLADE_TEAM_LARGEST_0(v) \
  TEAM_LARGER(TEAM_LARGER((v).s0, (v).s1), TEAM_LARGER((v).s2, (v).s3))

/* ---- combining operations for partial results: commutative statements that add b to a ---- */
#define TEAM_ADD(a, b)                                                                                \
  {                                                                                                   \
    const float2 team_o = (b);                                                                        \
    const float team_s = (a).x + team_o.x, team_t = team_s - (a).x;                                   \
    (a) = (float2)(team_s, ((a).y + team_o.y) + (((a).x - (team_s - team_t)) + (team_o.x - team_t)));  \
  }
#define TEAM_MOST(a, b) { (a) = TEAM_LARGER(a, b); }
/* For structs with a value .v at a position .at: the first largest value, or the first NaN. */
#define TEAM_FIRST_MOST(a, b)                                                                        \
  {                                                                                                  \
    const bool team_a = (a).v != (a).v, team_b = (b).v != (b).v;                                     \
    const bool team_even = (b).v == (a).v || (team_a && team_b);                                     \
    if ((b).v > (a).v || (team_b && !team_a) || (team_even && (b).at < (a).at)) (a) = (b);           \
  }

/* ---- exchanges; all items of the group must take part ---- */
/* Local memory with one element per item, or none if shuffles suffice. Declared at the beginning of a kernel. */
#define TEAM_ROOM(V, room) __local V room[SHUFFLES && TEAM <= 32 ? 1 : TEAM * BESIDE]
/* Sets `to` to the `from` of the item with lane `lane ^ s`; s is a power of two below TEAM. */
#define TEAM_SWAP(V, to, from, room, s)                                       \
  if (SHUFFLES && (s) < 32) {                                                 \
    CLADE_PASTE(CLADE_SHUFFLE_, SHUFFLES)(V, to, from, "bfly", s, 31)         \
  } else {                                                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    room[TEAM_ITEM] = from;                                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    to = room[TEAM_ITEM ^ ((s) * CLADE_TEAM_APART)];                          \
  }
/* Sets `to` to the `from` of the item s lanes before, within runs of 32 lanes. */
#define TEAM_BEFORE(V, to, from, room, s)                                     \
  if (SHUFFLES) {                                                             \
    CLADE_PASTE(CLADE_SHUFFLE_, SHUFFLES)(V, to, from, "up", s, 0)            \
  } else {                                                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    room[TEAM_ITEM] = from;                                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    to = room[TEAM_LANE >= (s) ? TEAM_ITEM - (s) * CLADE_TEAM_APART : TEAM_ITEM]; \
  }
#define CLADE_TEAM_APART (SPREAD ? BESIDE : 1)
/* SHUFFLES is 1 for consecutive teams on devices with PTX: shuffles of NVIDIA's warps, word by word. The keyword is
 * composed, so that the text of a program contains inline assembly only if one of its own kernels does. */
#define CLADE_ASM CLADE_PASTE(__as, m__)
#define CLADE_SHUFFLE_0(V, to, from, way, s, clamp) to = from;
#define CLADE_SHUFFLE_1(V, to, from, way, s, clamp)                                                        \
  union {                                                                                                  \
    V value;                                                                                               \
    uint word[sizeof(V) / 4];                                                                              \
  } team_own, team_got;                                                                                    \
  team_own.value = from;                                                                                   \
  for (int team_w = 0; team_w < (int)(sizeof(V) / 4); team_w++)                                            \
    CLADE_ASM volatile("shfl.sync." way ".b32 %0, %1, %2, " #clamp ", 0xffffffff;"                         \
                     : "=r"(team_got.word[team_w]) : "r"(team_own.word[team_w]), "r"(s));                  \
  to = team_got.value;

/* Combines the team's values of v, a variable of type V: lanes at a distance of 1 first, then 2, 4, … */
#define TEAM_REDUCE(V, v, room, JOIN)                           \
  for (int team_s = 1; team_s < TEAM; team_s *= 2) {            \
    V team_other;                                               \
    TEAM_SWAP(V, team_other, v, room, team_s)                   \
    JOIN(v, team_other)                                         \
  }
/* Inclusive scan over lanes: within runs of 32, then with the preceding runs in order. */
#define TEAM_SCAN(V, v, room, JOIN)                                                               \
  for (int team_s = 1; team_s < TEAM && team_s < 32; team_s *= 2) {                               \
    V team_other;                                                                                 \
    TEAM_BEFORE(V, team_other, v, room, team_s)                                                   \
    if (TEAM_LANE % 32 >= team_s) {                                                               \
      JOIN(team_other, v)                                                                         \
      v = team_other;                                                                             \
    }                                                                                             \
  }                                                                                               \
  if (TEAM > 32) {                                                                                \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                 \
    room[TEAM_ITEM] = v;                                                                          \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                 \
    if (TEAM_LANE >= 32) {                                                                        \
      const int team_at = TEAM_ITEM - TEAM_LANE * CLADE_TEAM_APART;                               \
      V team_all = room[team_at + 31 * CLADE_TEAM_APART];                                         \
      for (int team_r = 63; team_r < TEAM_LANE / 32 * 32; team_r += 32)                           \
        JOIN(team_all, room[team_at + team_r * CLADE_TEAM_APART])                                 \
      JOIN(team_all, v)                                                                           \
      v = team_all;                                                                               \
    }                                                                                             \
  }
/* Exclusive scan; `none` for the first lane. */
#define TEAM_SCAN_BEFORE(V, v, room, JOIN, none)                                                  \
  {                                                                                               \
    V team_before;                                                                                \
    TEAM_SCAN(V, v, room, JOIN)                                                                   \
    if (TEAM <= 32) {                                                                             \
      TEAM_BEFORE(V, team_before, v, room, 1)                                                     \
    } else {                                                                                      \
      barrier(CLK_LOCAL_MEM_FENCE);                                                               \
      room[TEAM_ITEM] = v;                                                                        \
      barrier(CLK_LOCAL_MEM_FENCE);                                                               \
      team_before = room[TEAM_LANE > 0 ? TEAM_ITEM - CLADE_TEAM_APART : TEAM_ITEM];               \
    }                                                                                             \
    v = none;                                                                                     \
    if (TEAM_LANE > 0) v = team_before;                                                           \
  }

/* ---- without teams: four consecutive elements per item, from FOUR_FROM on; `left` of them exist ---- */
#define FOUR_FROM ((long)get_global_id(0) * 4)
/* Any type, converted to float, int or long in a private array. */
#define FOUR_READ(T, lane, p, from, left)  CLADE_PASTE(CLADE_FOUR_READ_, CLADE_KIND(T))(T, lane, p, from, left)
#define FOUR_STORE(T, p, from, left, lane) CLADE_PASTE(CLADE_FOUR_STORE_, CLADE_KIND(T))(T, p, from, left, lane)
#define CLADE_FOUR_READ_real(T, lane, p, from, left)                                                    \
  {                                                                                                     \
    const float4 four_v = (left) < 4                    ? (float4)(LOAD(T, p, from),                    \
                                                (left) > 1 ? LOAD(T, p, (from) + 1) : 0.0f,             \
                                                (left) > 2 ? LOAD(T, p, (from) + 2) : 0.0f, 0.0f)       \
                          : CLADE_EVEN4((p) + (from)) ? CLADE_ACCESS(CLADE_GET4, T)(T, (p) + (from))    \
                                                      : LOADN(4, T, p, from);                           \
    lane[0] = four_v.s0;                                                                                \
    lane[1] = four_v.s1;                                                                                \
    lane[2] = four_v.s2;                                                                                \
    lane[3] = four_v.s3;                                                                                \
  }
#define CLADE_FOUR_READ_whole(T, lane, p, from, left)           \
  _Pragma("unroll") for (int four_l = 0; four_l < 4; four_l++)  \
    lane[four_l] = four_l < (left) ? LOAD(T, p, (from) + four_l) : 0;
#define CLADE_FOUR_READ_natural CLADE_FOUR_READ_whole
#define CLADE_FOUR_READ_truth   CLADE_FOUR_READ_whole
#define CLADE_FOUR_STORE_real(T, p, from, left, lane)                            \
  {                                                                              \
    const float4 four_v = (float4)(lane[0], lane[1], lane[2], lane[3]);          \
    if ((left) < 4) {                                                            \
      _Pragma("unroll") for (int four_l = 0; four_l < 3; four_l++)               \
        if (four_l < (left)) STORE(T, p, (from) + four_l, lane[four_l]);         \
    } else if (CLADE_EVEN4((p) + (from))) {                                      \
      CLADE_ACCESS(CLADE_PUT4, T)(T, (p) + (from), four_v);                      \
    } else {                                                                     \
      STOREN(4, T, p, from, four_v);                                             \
    }                                                                            \
  }
#define CLADE_FOUR_STORE_whole(T, p, from, left, lane)          \
  _Pragma("unroll") for (int four_l = 0; four_l < 4; four_l++)  \
    if (four_l < (left)) STORE(T, p, (from) + four_l, lane[four_l]);
#define CLADE_FOUR_STORE_natural CLADE_FOUR_STORE_whole
#define CLADE_FOUR_STORE_truth   CLADE_FOUR_STORE_whole
/* Any type as stored, in a private array of that type: FOUR_TAKE reads four, FOUR_GIVE writes the first `left`. */
#define CLADE_FOUR_OF(T) CLADE_PASTE(STORAGE(T), 4)
#define FOUR_TAKE(T, lane, p)                                                                    \
  {                                                                                              \
    if (CLADE_EVEN4(p)) {                                                                        \
      const CLADE_FOUR_OF(T) four_v = *(const __global CLADE_FOUR_OF(T) *)(p);                   \
      lane[0] = four_v.s0;                                                                       \
      lane[1] = four_v.s1;                                                                       \
      lane[2] = four_v.s2;                                                                       \
      lane[3] = four_v.s3;                                                                       \
    } else {                                                                                     \
      _Pragma("unroll") for (int four_l = 0; four_l < 4; four_l++) lane[four_l] = (p)[four_l];   \
    }                                                                                            \
  }
#define FOUR_GIVE(T, p, left, lane)                                                              \
  {                                                                                              \
    if ((left) == 4 && CLADE_EVEN4(p)) {                                                         \
      *(__global CLADE_FOUR_OF(T) *)(p) = (CLADE_FOUR_OF(T))(lane[0], lane[1], lane[2], lane[3]); \
    } else {                                                                                     \
      _Pragma("unroll") for (int four_l = 0; four_l < 4; four_l++)                               \
        if (four_l < (left)) (p)[four_l] = lane[four_l];                                         \
    }                                                                                            \
  }
