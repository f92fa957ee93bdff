/* Steps of a func after each other in one launch, for processors whose threads take longer to wake than a small step
 * takes. Each work-group is a worker. The items of a step are cut into tasks, and these into a share for each worker,
 * neighbors together: so a worker writes lines of its own, and meets again what it wrote in the step before. Who is
 * through with its share goes on with the others'. A worker begins a step when all tasks of the steps before it are done. Who
 * waits holds no task, and who holds one is running: nothing depends on how many workers run at the same time.
 * Steps of one item that follow each other are one task together: nobody else has to learn of what is between them.
 *
 * The host writes (src/plan/persistent.c): CASES, a case for each kernel that is a member, which calls its <kernel>_item with
 * arguments out of a step's; BASES and BASE_LIST, the memory that all of them lie in.
 *
 * table: counters, a line each, zero between launches: tasks done, workers through, tasks taken of each share; then, from
 * table_at on, for each step: tasks of a share, counted from the first step on, its member, items a task, items, where
 * its arguments are, counted from table_at, and how many steps its tasks do, with those that follow it. */
#define ITEM(name, k) CLADE_PASTE(CLADE_PASTE(name##_item_, SUFFIX), _##k)
/* A step's argument from its word k on. */
#define MEMORY(k) (__global void *)base[t[k]], t[k + 1]
#define INT(k)    t[k]
#define UINT(k)   (uint)t[k]
#define FLOAT(k)  as_float(t[k])
#define INT8(k)   vload8(0, t + k)

#ifndef CLADE_PAUSE /* by the host (src/cl/unit_probes.c), where the compiler takes inline assembly */
#define CLADE_PAUSE
#define CLADE_YIELD
#endif
static inline void FN(await)(volatile __global int *done, const int many) {
  for (int turn = 1; *done < many; turn++)
    if (turn % 2048) {
      CLADE_PAUSE
    } else {
      CLADE_YIELD
    }
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}

/* Apart, since a compiler that copies kernels would copy all cases. */
APART static void FN(work)(const int group, const int workers, const int steps, volatile __global int *done,
                           const __global int *table, __global char *const *base) {
  volatile __global int *through = done + 16, *shares = done + 32;
  for (int step = 0, begin = 0, end, next; step < steps; step = next, begin = end) {
    end = table[8 * step];
    next = step + table[8 * step + 5];
    FN(await)(done, begin * workers);
    for (int k = 0; k < workers; k++) {
      const int share = (group + k) % workers;
      volatile __global int *taken = shares + 16 * share;
      for (int task = *taken; task < end; task = *taken) {
        if (atomic_cmpxchg(taken, task, task + 1) != task) continue;
        for (int one = step; one < next; one++) {
          const int4 s = vload4(0, table + 8 * one + 1);
          const __global int *t = table + s.s3;
          const int first = (share * (end - begin) + task - begin) * s.s1, behind = min(first + s.s1, s.s2);
          for (int item = first; item < behind; item++) switch (s.s0) { CASES }
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        atomic_inc(done);
      }
    }
  }
  if (atomic_inc(through) + 1 < workers) return;
  *done = *through = 0;
  for (int k = 0; k < workers; k++) shares[16 * k] = 0;
}

KERNEL(persistent)(ARG(int, table), const int steps, BASES) {
  if (steps == 0) return;
  __global char *const base[] = {BASE_LIST};
  USE(int, table);
  FN(work)((int)get_group_id(0), (int)get_num_groups(0), steps, table_base, table, base);
}
#undef ITEM
#undef MEMORY
#undef INT
#undef UINT
#undef FLOAT
#undef INT8
