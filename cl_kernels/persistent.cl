/* A persistent kernel: consecutive steps of a func in one launch, for CPUs on which waking the threads takes longer
 * than a small step.
 *
 * Each work-group is a worker. The work-items of a step are divided into tasks, and the tasks into one contiguous share
 * per worker, so that a worker writes its own cache lines and often reads what it wrote in the previous step. A worker
 * that has finished its share takes tasks from the others'. A worker begins a step when all tasks of earlier steps are
 * done. There is no deadlock with fewer running workers: a waiting worker holds no task, and a task is held only by a
 * running worker. Consecutive steps of one work-item form a single task, which needs no synchronization in between.
 *
 * The host (src/plan/persistent.c) generates CASES, a case per member kernel, which calls its <kernel>_item with
 * arguments from the step's table entry; and BASES and BASE_LIST, the buffers of all steps.
 *
 * Layout of `table`:
 *
 *   counters, a cache line each, zero between launches: tasks done; workers finished; tasks taken from each share
 *   from table_at on, eight words per step: tasks of a share, accumulated over the steps; member; work-items per task;
 *   work-items; position of the arguments, relative to table_at; number of consecutive steps that its tasks execute */
#define ITEM(name, k) CLADE_PASTE(CLADE_PASTE(name##_item_, SUFFIX), _##k)
/* The argument at word k of a step's arguments. */
#define MEMORY(k) (__global void *)base[t[k]], t[k + 1]
#define INT(k)    t[k]
#define UINT(k)   (uint)t[k]
#define FLOAT(k)  as_float(t[k])
#define INT8(k)   vload8(0, t + k)

#ifndef CLADE_PAUSE /* defined by the host (src/cl/unit_probes.c) if the compiler supports inline assembly */
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

/* Not inlined: compilers that duplicate kernels would duplicate all cases. */
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
