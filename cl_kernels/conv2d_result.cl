/* Results of convolutions on CPUs, whose vectors are WIDTH floats. Included by conv2d*.cl.
 *
 * The element is at batch * s5 + row / 16 * s4 + row % 16 * s6 + column * s7, in y and in the epilogue's operands.
 * Sixteen elements that are stored at once are channels of a block if `down`, else places of a line. */
#define EPILOGUE_AT(strides) (batch * (strides).s5)
#undef EPILOGUE_ELEMENT
#define EPILOGUE_ELEMENT(s) CLADE_CHANNEL_ELEMENT(s)
#define SIXTEEN(T)          CLADE_PASTE(COMPUTE(T), 16)
#define EPILOGUE_LOAD16(T, e, s) \
  ((down ? (s).s6 : (s).s7) ? LOAD16(T, e, EPILOGUE_ELEMENT(s)) : (SIXTEEN(T))(LOAD(T, e, EPILOGUE_ELEMENT(s))))
#define OUT_ARGS                                                                         \
  __global STORAGE(OUT) *y, const index8_t y_s, const index_t batch, const index_t row0, \
      const index_t column0 EPILOGUE_ARGS
#define OUT_PASS y, y_s, batch, row0, column0 EPILOGUE_PASS
#if INTEGER /* computed in floats */
#define RESULTS(v) convert_int16(v)
#else
#define RESULTS(v) v
#endif
/* Stores one result, or sixteen. */
#define PUT_RESULT(at_row, at_column, v)                \
  {                                                     \
    const index_t row = at_row, column = at_column;     \
    const COMPUTE(T) i0 = (COMPUTE(T))(v);              \
    EPILOGUE                                            \
    STORE(OUT, y, EPILOGUE_ELEMENT(y_s), r);            \
  }
#define PUT_RESULTS(at_row, at_column, v)               \
  {                                                     \
    const index_t row = at_row, column = at_column;     \
    const SIXTEEN(T) i0 = RESULTS(v);                   \
    EPILOGUE16                                          \
    STORE16(OUT, y, EPILOGUE_ELEMENT(y_s), r);          \
  }

#ifndef SUM /* type of a tile's elements */
#define SUM float
#endif
#ifndef TURNED_AT_ONCE /* channels that are transposed at a time */
#define TURNED_AT_ONCE 8
#endif
/* Transposes sixteen places, `apart` floats apart. */
static inline void FN(turn_back)(const float *tile, int apart, float16 *of) {
#if TURNED_AT_ONCE == 16
  UNROLLED(l, 16) of[l] = vload16(0, tile + l * apart);
  clade_turn_sixteen(of);
#else
  float8 low[8], high[8];
  UNROLLED(l, 8) low[l] = vload8(0, tile + l * apart), high[l] = vload8(0, tile + (l + 8) * apart);
  clade_turn(low);
  clade_turn(high);
  UNROLLED(l, 8) of[l] = (float16)(low[l], high[l]);
#endif
}

/* Stores `rows` channels of many.x lines of many.y places. Channels, lines and places are by_row, by_line and by_place
 * floats apart in the tile; lines and places are by.x and by.y columns apart in the result. down: by_row is 1. */
APART static void FN(finish)(const SUM *tile, const int by_row, const int by_line, const int by_place, int rows,
                             int2 many, int2 by, const bool down, OUT_ARGS) {
  EPILOGUE_USE
  int k = 0, done = 0;
#if WIDE
  for (; down && k + 16 <= rows; k += 16)
    for (int line = 0; line < many.x; line++)
      for (int i = 0; i < many.y; i++)
        PUT_RESULTS(row0 + k, column0 + line * by.x + i * by.y, vload16(0, tile + line * by_line + i * by_place + k))
  for (; !down && by_place > 1 && many.x == 1 && by.y == 1 && many.y >= 16 && k < rows; k += TURNED_AT_ONCE)
    for (int i = 0; i < many.y; i += 16) { /* the last sixteen end with the line */
      const int at = min(i, many.y - 16);
      float16 of[TURNED_AT_ONCE];
      FN(turn_back)((const float *)tile + at * by_place + k, by_place, of);
      UNROLLED(l, TURNED_AT_ONCE) if (k + l < rows) PUT_RESULTS(row0 + k + l, column0 + at, of[l])
    }
  if (!down && by_place == 1) {
    done = many.y / 16 * 16;
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < done; i += 16) PUT_RESULTS(row0 + r, column0 + i, vload16(0, tile + r * by_row + i))
  }
#endif
  for (; k < rows; k++)
    for (int line = 0; line < many.x; line++)
      ONE_BY_ONE for (int i = done; i < many.y; i++)
        PUT_RESULT(row0 + k, column0 + line * by.x + i * by.y, tile[k * by_row + line * by_line + i * by_place])
}
