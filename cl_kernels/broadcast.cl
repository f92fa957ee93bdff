/* Broadcast: each work-item writes a piece of the output, run by run along the last axis. */
#if MEAN
#define MOVE(x, i, y, j, by) STORE(T, y, j, LOAD(T, x, i) / (by))
#else
#define MOVE(x, i, y, j, by) (y)[j] = (x)[i]
#endif

#define ARGS                                                                                               \
  ARG(const STORAGE(T), x), ARG(STORAGE(T), y), const index_t total, const index_t piece, const int rank,  \
  const index8_t dims, const index8_t strides, const float by
BODY(piece)(const long begin, ARGS) {
  if (begin >= total) return;
  USE(const STORAGE(T), x);
  USE(STORAGE(T), y);
  index_t dim[8], stride[8], index[8];
  vstore8(dims, 0, dim);
  vstore8(strides, 0, stride);
  index_t at = (index_t)begin, left = min(piece, total - at), from = 0;
  for (index_t d = rank - 1, rest = at; d >= 0; d--) {
    index[d] = rest % dim[d];
    rest /= dim[d];
    from += index[d] * stride[d];
  }
  const int last = rank - 1;
  while (left > 0) {
    const index_t run = min(left, dim[last] - index[last]), step = stride[last];
    if (step == 0) {
      for (index_t i = 0; i < run; i++) MOVE(x, from, y, at + i, by);
    } else if (step == 1) {
      for (index_t i = 0; i < run; i++) MOVE(x, from + i, y, at + i, by);
    } else {
      for (index_t i = 0; i < run; i++) MOVE(x, from + i * step, y, at + i, by);
    }
    at += run;
    left -= run;
    from -= index[last] * step;
    index[last] = 0;
    for (int d = last - 1; d >= 0 && left > 0; d--) {
      from += stride[d];
      if (++index[d] < dim[d]) break;
      from -= dim[d] * stride[d];
      index[d] = 0;
    }
  }
}

KERNEL(broadcast_forward_ref)(ARGS) {
  FN(piece)((long)get_global_id(0) * piece, PASS(x), PASS(y), total, piece, rank, dims, strides, by);
}
#undef ARGS
#undef MOVE
