/* A joined launch: consecutive steps of a func that are independent of each other, for GPUs, where a launch takes as
 * long as a small step computes. Each work-group looks up its step.
 *
 * The host (src/plan/joined.c) generates CASES, a case per member kernel, which calls its <kernel>_item with arguments
 * from the step's table entry; BASES and BASE_LIST, the buffers of all steps; and CHOICE, the one with number k. A chain
 * of selections keeps the buffers in registers, whereas an array that is indexed would be copied to each work-item's
 * memory.
 *
 * Layout of `table` from table_at on:
 *
 *   eight words per step: its first work-group; member; work-items; position of the arguments
 *   arguments of all steps
 *   from `map` on, a word per work-group: its step */
#define ITEM(name, k) CLADE_PASTE(CLADE_PASTE(name##_item_, SUFFIX), _##k)
/* The argument at word k of a step's arguments. */
#define MEMORY(k) (__global void *)FN(base)(t[k], BASE_LIST), t[k + 1]
#define INT(k)    t[k]
#define UINT(k)   (uint)t[k]
#define FLOAT(k)  as_float(t[k])
#define INT8(k)   vload8(0, t + k)

static inline __global char *FN(base)(const int k, BASES) { return CHOICE; }

GROUP(ITEMS, 1, 1) KERNEL(joined)(ARG(const int, table), const int map, BASES) {
  if (map == 0) return;
  USE(const int, table);
  const int group = (int)get_group_id(0);
  const int4 s = vload4(0, table + 8 * table[map + group]);
  const int item = (group - s.s0) * ITEMS + (int)get_local_id(0);
  const __global int *t = table + s.s3;
  if (item >= s.s2) return;
  switch (s.s1) { CASES }
}
