/* Unpack: each work-item reads one block and leaves its padding out. */
#define ARGS                                                                                                    \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t before, const index_t axis,  \
  const index_t inner, const int block, const int interleave
BODY(block)(const long item, ARGS) {
  if ((long)outer * before * axis * inner == 0) return;
  const index_t rows = (before + interleave - 1) / interleave, blocks = (axis + block - 1) / block;
  if (item >= (long)outer * rows * blocks * inner) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  index_t rest = (index_t)item;
  const index_t column = rest % inner;
  rest /= inner;
  const index_t first = rest % blocks * block;
  rest /= blocks;
  const index_t row = rest % rows * interleave, base = rest / rows * before;
  const index_t from = (index_t)item * block * interleave;
  for (int i = 0; i < block && first + i < axis; i++)
    for (int j = 0; j < interleave && row + j < before; j++)
      y[((base + row + j) * axis + first + i) * inner + column] = x[from + i * interleave + j];
}

KERNEL(unpack_forward_ref)(ARGS) {
  FN(block)((long)get_global_id(0), PASS(x), PASS(y), outer, before, axis, inner, block, interleave);
}
#undef ARGS
