/* Behind the other preludes: how the work-items of a group compute one thing together. Macros alone, so that a program
 * without them costs no more for it.
 *
 * A work-group of one dimension is BESIDE teams of TEAM items, powers of two; src/op/group.c defines both. A team has a
 * line: `n` elements that lie `inner` apart. SPREAD 0: lines are rows (inner is 1), and a team's items are neighbors, so
 * that they read neighbors. SPREAD 1: lines lie beside each other, and neighboring items belong to neighboring teams.
 *
 *   KERNEL(acme_sums)(ARG(const STORAGE(T), x), ARG(float, y), const index_t lines, const index_t n, const index_t inner) {
 *     TEAM_ROOM(float2, room);
 *     if (TEAM_FIRST >= lines) return;             // the whole group: exchanges are for all of its items
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
 * The order of a reduction hangs on TEAM alone, not on how items exchange what they have: so do the bits. */

/* ---- places ---- */
#define TEAM_ITEM  ((int)get_local_id(0))
#define TEAM_LANE  (SPREAD ? TEAM_ITEM / BESIDE : TEAM_ITEM % TEAM) /* in the team */
#define TEAM_FIRST ((long)get_group_id(0) * BESIDE)                 /* the group's first line */
#define TEAM_LINE  (TEAM_FIRST + (SPREAD ? TEAM_ITEM % BESIDE : TEAM_ITEM / TEAM))
/* Whether this item is the one that writes what a team has found of its line. Both are asked at once: of `own && lane ==
 * 0` behind another `if (own)` LLVM 14 makes stores of all items where PoCL makes vectors of these. */
#define TEAM_TELLS(lines) ((TEAM_LINE < (lines)) & (TEAM_LANE == 0))

/* ---- elements: four at a time of rows, one of lines that lie beside each other ---- */
#define TEAM_PIECE   (SPREAD ? 1 : 4)
#define CLADE_TEAM_FLOAT_0 float4
#define CLADE_TEAM_FLOAT_1 float
#define TEAM_FLOAT   CLADE_PASTE(CLADE_TEAM_FLOAT_, SPREAD)
/* The head of a loop: each piece of a line of n elements is one item's. It is none for vectors: on PoCL 3.1 LLVM 14
 * makes some that read beyond the line. */
#define TEAM_FOR(i, n)                           \
  _Pragma("clang loop vectorize(disable)")       \
  for (index_t i = (index_t)TEAM_LANE * TEAM_PIECE; i < (n); i += TEAM * TEAM_PIECE)
/* ... each element is, of rows as well: neighbors read neighbors. For what comes in no vectors. */
#define TEAM_EACH(i, n)                          \
  _Pragma("clang loop vectorize(disable)")       \
  for (index_t i = (index_t)TEAM_LANE; i < (n); i += TEAM)
/* Four that begin where a vector of four may: one instruction moves them, where vload4 and vstore4 may be four. */
#define CLADE_EVEN4(p) (((size_t)(p) & (4 * sizeof(*(p)) - 1)) == 0)
#define CLADE_GET4_f32(T, p)    (*(const __global float4 *)(p))
#define CLADE_GET4_f16(T, p)    LOADN(4, T, p, 0)
#define CLADE_GET4_bf16(T, p)   as_float4(convert_uint4(*(const __global ushort4 *)(p)) << 16)
#define CLADE_GET4_small(T, p)  LOADN(4, T, p, 0)
#define CLADE_PUT4_f32(T, p, v)   *(__global float4 *)(p) = (v)
#define CLADE_PUT4_f16(T, p, v)   STOREN(4, T, p, 0, v)
#define CLADE_PUT4_bf16(T, p, v)  STOREN(4, T, p, 0, v)
#define CLADE_PUT4_small(T, p, v) STOREN(4, T, p, 0, v)
/* Whether all rows of n elements begin where a vector of four may. */
#define TEAM_WHOLE(p, n) (!SPREAD && (n) % 4 == 0 && CLADE_EVEN4(p))
/* Elements from i on of a line that begins at `base`; those from n on are `none`. `whole`: TEAM_WHOLE holds. */
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

/* ---- what an item has found in its pieces ---- */
/* A sum and what its additions lost (Knuth's two-sum), in each lane of a TEAM_FLOAT; both as one pair, and the pair as
 * one number. */
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
/* The larger of each lane, where NaN is larger than all; and the largest of all lanes. */
#define TEAM_LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define TEAM_LARGEST(v)   CLADE_PASTE(CLADE_TEAM_LARGEST_, SPREAD)(v)
#define CLADE_TEAM_LARGEST_1(v) (v)
#define CLADE_TEAM_LARGEST_0(v) \
  TEAM_LARGER(TEAM_LARGER((v).s0, (v).s1), TEAM_LARGER((v).s2, (v).s3))

/* ---- what a team has found: statements that join b to a. They say the same with a and b exchanged ---- */
#define TEAM_ADD(a, b)                                                                                \
  {                                                                                                   \
    const float2 team_o = (b);                                                                        \
    const float team_s = (a).x + team_o.x, team_t = team_s - (a).x;                                   \
    (a) = (float2)(team_s, ((a).y + team_o.y) + (((a).x - (team_s - team_t)) + (team_o.x - team_t)));  \
  }
#define TEAM_MOST(a, b) { (a) = TEAM_LARGER(a, b); }
/* Of structs with a value .v and its place .at: the first of the largest, or the first NaN. */
#define TEAM_FIRST_MOST(a, b)                                                                        \
  {                                                                                                  \
    const bool team_a = (a).v != (a).v, team_b = (b).v != (b).v;                                     \
    const bool team_even = (b).v == (a).v || (team_a && team_b);                                     \
    if ((b).v > (a).v || (team_b && !team_a) || (team_even && (b).at < (a).at)) (a) = (b);           \
  }

/* ---- exchanges, for all items of the group at once ---- */
/* Local memory for values of a type, an element for each item; none where shuffles do all. At the kernel's begin. */
#define TEAM_ROOM(V, room) __local V room[SHUFFLES && TEAM <= 32 ? 1 : TEAM * BESIDE]
/* `to` becomes what the item of the lane `lane ^ s` has in `from`: s is a power of two below TEAM. */
#define TEAM_SWAP(V, to, from, room, s)                                       \
  if (SHUFFLES && (s) < 32) {                                                 \
    CLADE_PASTE(CLADE_SHUFFLE_, SHUFFLES)(V, to, from, "bfly", s, 31)         \
  } else {                                                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    room[TEAM_ITEM] = from;                                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                             \
    to = room[TEAM_ITEM ^ ((s) * CLADE_TEAM_APART)];                          \
  }
/* ... what the item s lanes before has, for those that have one in their run of 32. */
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
/* SHUFFLES: teams of neighbors, on a device where PTX was probed. Of NVIDIA's warps, word by word. The keyword is pasted,
 * so that a program's text reads as inline assembly only where a kernel of its own has some. */
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

/* v, a variable of the type V, becomes all of the team's joined: lanes 1 apart first, then 2, 4, … */
#define TEAM_REDUCE(V, v, room, JOIN)                           \
  for (int team_s = 1; team_s < TEAM; team_s *= 2) {            \
    V team_other;                                               \
    TEAM_SWAP(V, team_other, v, room, team_s)                   \
    JOIN(v, team_other)                                         \
  }
/* ... those of the lanes up to this one: in runs of 32 first, then with the runs before, from the first one on. */
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
/* ... those of the lanes before this one; of the first one, `none`. */
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

/* ---- without teams: an item has four elements on end, from FOUR_FROM on, of which `left` are there ---- */
#define FOUR_FROM ((long)get_global_id(0) * 4)
/* Of any type, in float, int or long, to and from a private array. */
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
/* ... of any type as it is stored, in a private array of that: four that are there, and the first `left`. */
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
