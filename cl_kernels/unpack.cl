/* Unpack: each work-item reads one block and leaves its padding out. */
KERNEL(unpack_forward_ref)
(ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t outer, const index_t before, const index_t axis,
 const index_t inner, const int block, const int interleave) {
  if ((long)outer * before * axis * inner == 0) return;
  const index_t rows = (before + interleave - 1) / interleave, blocks = (axis + block - 1) / block;
  const long item = (long)get_global_id(0);
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
