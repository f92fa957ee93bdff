/* One-dimensional transforms of Winograd's algorithm (docs/layouts.md), for tiles of OUT_SIDE results. The
 * interpolation points are 0, A, -A, B, -B and infinity, or 0, 1, -1 and infinity. Places d become t, three weights w
 * become u, and products m become results y. For the gradient with respect to the weights, where the window has 4 x 4
 * taps and the result is 3 x 3, four values w of the result's gradient become u, and products m become weights y. */
#define A 0.625f
#define B 1.5f
#if OUT_SIDE == 4
#define FROM_PLACES(t, d)                                            \
  {                                                                  \
    const VECTOR a = fma((VECTOR)(-B * B), d[2], d[4]);              \
    const VECTOR b = A * fma((VECTOR)(-B * B), d[1], d[3]);          \
    const VECTOR e = fma((VECTOR)(-A * A), d[2], d[4]);              \
    const VECTOR f = B * fma((VECTOR)(-A * A), d[1], d[3]);          \
    t[0] = fma((VECTOR)(A * A * B * B), d[0], fma((VECTOR)(-A * A - B * B), d[2], d[4])); \
    t[1] = a + b;                                                    \
    t[2] = a - b;                                                    \
    t[3] = e + f;                                                    \
    t[4] = e - f;                                                    \
    t[5] = fma((VECTOR)(A * A * B * B), d[1], fma((VECTOR)(-A * A - B * B), d[3], d[5])); \
  }
/* Combines even and odd terms at A and at B, and the first and last terms. */
#define AT_POINTS(u, a, b, e, f, first, last)                                                       \
  {                                                                                                 \
    const float by_a = 1 / (2 * A * A * (A * A - B * B)), by_b = 1 / (2 * B * B * (B * B - A * A)); \
    u[0] = (1 / (A * A * B * B)) * first;                                                           \
    u[1] = by_a * (a + b);                                                                          \
    u[2] = by_a * (a - b);                                                                          \
    u[3] = by_b * (e + f);                                                                          \
    u[4] = by_b * (e - f);                                                                          \
    u[5] = last;                                                                                    \
  }
#define FROM_WEIGHTS(u, w)                                             \
  {                                                                    \
    const float16 a = fma((float16)(A * A), w[2], w[0]), b = A * w[1]; \
    const float16 e = fma((float16)(B * B), w[2], w[0]), f = B * w[1]; \
    AT_POINTS(u, a, b, e, f, w[0], w[2])                               \
  }
#define FIRST_TWO(TYPE, y, m)                                                      \
  const TYPE a = m[1] + m[2], b = m[1] - m[2], e = m[3] + m[4], f = m[3] - m[4];   \
  y[0] = m[0] + (a + e);                                                           \
  y[1] = fma((TYPE)(B), f, A * b);
#define TO_RESULTS(y, m)                                      \
  {                                                           \
    FIRST_TWO(VECTOR, y, m)                                   \
    y[2] = fma((VECTOR)(B * B), e, A * A * a);                \
    y[3] = m[5] + fma((VECTOR)(B * B * B), f, A * A * A * b); \
  }
#define FROM_DERIVATIVES(u, w)                                                                   \
  {                                                                                              \
    const VECTOR a = fma((VECTOR)(A * A), w[2], w[0]), b = A * fma((VECTOR)(A * A), w[3], w[1]); \
    const VECTOR e = fma((VECTOR)(B * B), w[2], w[0]), f = B * fma((VECTOR)(B * B), w[3], w[1]); \
    AT_POINTS(u, a, b, e, f, w[0], w[3])                                                         \
  }
#define TO_WEIGHTS(y, m)                                  \
  {                                                       \
    FIRST_TWO(float16, y, m)                              \
    y[2] = m[5] + fma((float16)(B * B), e, A * A * a);    \
  }
#else
#define FROM_PLACES(t, d) \
  {                       \
    t[0] = d[2] - d[0];   \
    t[1] = d[2] + d[1];   \
    t[2] = d[2] - d[1];   \
    t[3] = d[3] - d[1];   \
  }
#define FROM_WEIGHTS(u, w)               \
  {                                      \
    u[0] = -w[0];                        \
    u[1] = 0.5f * (w[0] + w[2] + w[1]);  \
    u[2] = 0.5f * (w[0] + w[2] - w[1]);  \
    u[3] = w[2];                         \
  }
#define TO_RESULTS(y, m)        \
  {                             \
    y[0] = m[0] + (m[1] + m[2]); \
    y[1] = m[3] + (m[1] - m[2]); \
  }
#endif
/* Transforms IN x IN values of a TYPE, along both axes, to TO x TO: `from` is value (i, j), and `put` stores the result
 * (i, j), t[j]. LOOP: TIMES or UNROLLED. */
#define TIMES(i, n) for (int i = 0; i < (n); i++)
#define TRANSFORM(LOOP, TYPE, F, IN, TO, from, put)    \
  {                                                    \
    TYPE some[TO][IN];                                 \
    LOOP(j, IN) {                                      \
      TYPE d[IN], t[TO];                               \
      UNROLLED(i, IN) d[i] = from;                     \
      F(t, d)                                          \
      UNROLLED(i, TO) some[i][j] = t[i];               \
    }                                                  \
    LOOP(i, TO) {                                      \
      TYPE t[TO];                                      \
      F(t, some[i])                                    \
      UNROLLED(j, TO) put;                             \
    }                                                  \
  }
