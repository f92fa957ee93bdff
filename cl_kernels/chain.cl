/* Steps of a func after each other in one launch, for processors whose threads take longer to wake than a small step
 * takes. Each work-group is a worker. The items of all steps are cut into tasks, numbered in order; a worker takes the
 * next one, waits until all tasks of the steps before it are done, and does it. Who is waited for has taken its task
 * and so is running: nothing depends on how many workers run at the same time.
 *
 * The host writes (src/plan/chain.c): CASES, a case for each kernel that is a member, which calls its <kernel>_item with
 * arguments out of a step's; BASES and BASE_LIST, the memory that all of them lie in.
 *
 * table: three counters, a line each, zero between launches: tasks taken, tasks done, workers through; then, from
 * table_at on, for each step: the number of the task behind its last one, its member, items a task, items, and where its
 * arguments are, counted from table_at. */
#define ITEM(name, k) CLADE_PASTE(CLADE_PASTE(name##_item_, SUFFIX), _##k)
/* A step's argument from its word k on. */
#define MEMORY(k) (__global void *)base[t[k]], t[k + 1]
#define INT(k)    t[k]
#define UINT(k)   (uint)t[k]
#define FLOAT(k)  as_float(t[k])
#define INT8(k)   vload8(0, t + k)

#if defined __x86_64__ && defined __linux__
#define PAUSE __asm__ volatile("pause" ::: "memory");
/* sched_yield: where there are more threads than processors, who is waited for needs this one. */
#define YIELD                                                                                  \
  {                                                                                            \
    long r = 24;                                                                               \
    __asm__ volatile("syscall" : "+a"(r) : : "rcx", "r11", "memory");                          \
  }
#else
#define PAUSE
#define YIELD
#endif
static inline void FN(await)(volatile __global int *done, const int many) {
  for (int turn = 1; *done < many; turn++)
    if (turn % 2048)
      PAUSE
    else
      YIELD
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}

KERNEL(chain)(ARG(int, table), const int steps, BASES) {
  if (steps == 0) return;
  volatile __global int *taken = table_base, *done = table_base + 16, *through = table_base + 32;
  __global char *const base[] = {BASE_LIST};
  USE(int, table);
  for (int step = 0, begin = 0;;) {
    const int task = atomic_inc(taken);
    for (; step < steps && task >= table[8 * step]; step++) begin = table[8 * step];
    if (step == steps) break;
    FN(await)(done, begin);
    const int4 s = vload4(0, table + 8 * step + 1);
    const __global int *t = table + s.s3;
    const int first = (task - begin) * s.s1, behind = min(first + s.s1, s.s2);
    for (int item = first; item < behind; item++) switch (s.s0) { CASES }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_inc(done);
  }
  if (atomic_inc(through) + 1 == (int)get_num_groups(0)) *taken = *done = *through = 0;
}
#undef ITEM
#undef MEMORY
#undef INT
#undef UINT
#undef FLOAT
#undef INT8
#undef PAUSE
#undef YIELD
