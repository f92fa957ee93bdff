#!/usr/bin/env bash
# Compiles the kernels of NVIDIA's matrix units with real instead of emulated instructions, and the group kernels with
# shuffles, to PTX on any machine; if PTXAS names ptxas, assembles them too.
#   ptx_compiles.sh ROOT CLANG UNIT_SOURCE
set -euo pipefail
root=$1 clang=$2 probe=$3
if ! "$clang" -print-targets | grep -q nvptx64; then
  echo "SKIPPED: $clang makes no PTX"
  exit 77
fi

# OpenCL's builtins, as NVIDIA's compiler implements them.
functions='
#define OWN __attribute__((overloadable))
OWN size_t get_local_id(uint d) { return __nvvm_read_ptx_sreg_tid_x(); }
OWN size_t get_group_id(uint d) {
  return d == 0 ? __nvvm_read_ptx_sreg_ctaid_x() : d == 1 ? __nvvm_read_ptx_sreg_ctaid_y() : __nvvm_read_ptx_sreg_ctaid_z();
}
OWN void barrier(uint f) { __nvvm_bar_sync(0); }
OWN int min(int a, int b) { return a < b ? a : b; }
OWN int max(int a, int b) { return a > b ? a : b; }
OWN void vstore_half_rte(float v, size_t i, __global half *p) {
  ushort h;
  __asm__("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  ((__global ushort *)p)[i] = h;
}
OWN void vstore_half_rte(float v, size_t i, half *p);
OWN float vload_half(size_t i, const half *p) {
  float v;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(((const ushort *)p)[i]));
  return v;
}
OWN float vload_half(size_t i, const __global half *p) {
  float v;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(((const __global ushort *)p)[i]));
  return v;
}
OWN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }'

# compile WANT...: compiles standard input to PTX that must contain each instruction
compile() {
  local code want
  code=$({ echo "$functions" && cat; } | "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Xclang -cl-ext=+all --target=nvptx64-nvidia-nvcl \
    -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 -O2 -w -S -o - -I "$root/cl_kernels" "${defines[@]}" -)
  for want in "$@"; do
    printf '  %4d %s\n' "$(grep -cE "$want" <<<"$code" || true)" "$want"
    grep -qE "$want" <<<"$code"
  done
  if [ -z "${PTXAS:-}" ]; then return; fi
  if grep -q '//!90a ' <<<"$code"; then
    code=$(sed -e 's#//!90a ##' -e 's/^\.target sm_80.*/.target sm_90a/' -e 's/^\.version .*/.version 8.4/' <<<"$code")
    assemble sm_90a
  elif grep -q 'e4m3' <<<"$code"; then
    code=$(sed -e 's/^\.target sm_80.*/.target sm_89/' -e 's/^\.version .*/.version 8.4/' <<<"$code")
    assemble sm_89 && assemble sm_90
  else
    assemble sm_80 && assemble sm_90
  fi
}
# assemble ARCH: register spills and ptxas' warnings about wgmma are errors
assemble() {
  local told
  # The driver handles more than 48 KiB of local memory.
  told=$("$PTXAS" -c -v -arch="$1" - -o /dev/null <<<"$code" 2>&1) || true
  if grep -E 'error|fatal' <<<"$told" | grep -v 'too much shared data'; then return 1; fi
  if grep -E '[1-9][0-9]* bytes spill' <<<"$told" || grep -i wgmma <<<"$told"; then return 1; fi
  grep -oE 'Used [0-9]+ registers' <<<"$told" | sort | uniq -c | sed "s/^/  $1/"
}

always='cp\.async\.cg\.shared\.global'
for tile in "128 128 16 64 32 2" "16 64 16 16 16 4"; do
  read -r rows columns slice tall wide stages <<<"$tile"
  for type in f16 bf16 f32; do
    for lies in "1 1" "1 0" "0 1" "0 0"; do
      read -r left right <<<"$lies"
      echo "$type, $tile, left deep $left, right deep $right"
      defines=(-DWANT_gemm_forward_stages -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DUNITS=1 -DINTEGER=0 -DIMITATE=0 -DT=$type -DTB=$type -DOUT=$type -DBM="$rows" -DBN="$columns"
        -DBK="$slice" -DTM="$tall" -DTN="$wide" -DSTAGES="$stages" -DWARPGROUP=0 -DLEFT_DEEP="$left" -DRIGHT_DEEP="$right"
        -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;')
      case $type in
      f32) want=('mma\.sync\.aligned\.m16n8k8.*tf32' 'cvt\.rna\.tf32') ;;
      *) want=("mma\\.sync\\.aligned\\.m16n8k16.*\\.$type\\.$type") ;;
      esac
      if [ $((left + right)) -gt 0 ]; then want+=('ldmatrix\.sync\.aligned\.m8n8\.x4\.shared'); fi
      if [ $((left + right)) -lt 2 ] && [ $type != f32 ]; then want+=('ldmatrix\.sync\.aligned\.m8n8\.x4\.trans'); fi
      cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/product.cl" |
        compile "$always" "cp\\.async\\.wait_group[[:space:]]+$((stages - 2));" "${want[@]}"
    done
  done
done

# operand types, result, sums, types of mma
while read -r type other result sum names; do
  for lies in "1 1" "0 0"; do
    read -r left right <<<"$lies"
    echo "$type by $other, left deep $left, right deep $right"
    defines=(-DWANT_gemm_forward_stages -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DUNITS=1 -DINTEGER=$([ "$sum" = s32 ] && echo 1 || echo 0) -DIMITATE=0
      -DT="$type" -DTB="$other" -DOUT="$result" -DBM=128 -DBN=128 -DBK=16 -DTM=64 -DTN=32 -DSTAGES=2 -DWARPGROUP=0 -DLEFT_DEEP="$left"
      -DRIGHT_DEEP="$right" -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;')
    cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/product.cl" |
      compile "$always" "mma\\.sync\\.aligned\\.m16n8k32\\.row\\.col\\.$sum\\.$names\\.$sum"
  done
done <<'TYPES'
u8 i8 i32 s32 u8\.s8
f8e4m3 f8e4m3 f32 f32 e4m3\.e4m3
TYPES

# operand types, result, sums, types and steps of wgmma, largest number of columns, what follows the scale
while read -r type other result sum names steps most factors; do
  for tile in "128 $most 4" "64 64 4"; do
    read -r rows columns stages <<<"$tile"
    for lies in "1 1" "1 0" "0 1" "0 0"; do
      read -r left right <<<"$lies"
      echo "$type by $other, warpgroups, $tile, left deep $left, right deep $right"
      ends=${factors/LEFT/$((1 - left))}
      defines=(-DWANT_gemm_forward_stages -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DUNITS=1 -DINTEGER=$([ "$sum" = s32 ] && echo 1 || echo 0) -DIMITATE=0
        -DT="$type" -DTB="$other" -DOUT="$result" -DBM="$rows" -DBN="$columns" -DBK=32 -DTM=16 -DTN="$columns" -DSTAGES="$stages" -DWARPGROUP=1
        -DLEFT_DEEP="$left" -DRIGHT_DEEP="$right" -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;')
      want=("cp\\.async\\.wait_group[[:space:]]+$((stages - 3));"
        "//!90a wgmma\\.mma_async\\.sync\\.aligned\\.m64n${columns}k$steps\\.$sum\\.$names .*, 1${ends/RIGHT/$((1 - right))};")
      if [ "$lies" != "0 0" ] || [ "$steps" = 16 ]; then want+=("$always"); fi
      if [ "$lies" != "1 1" ] && [ "$steps" != 16 ]; then want+=('st\.shared\.v4'); fi
      cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/product.cl" | compile "${want[@]}"
    done
  done
done <<'TYPES'
f16 f16 f16 f32 f16\.f16 16 256 , 1, 1, LEFT, RIGHT
bf16 bf16 bf16 f32 bf16\.bf16 16 256 , 1, 1, LEFT, RIGHT
f32 f32 f32 f32 tf32\.tf32 8 256 , 1, 1
u8 i8 i32 s32 u8\.s8 32 256
f8e4m3 f8e4m3 f32 f32 e4m3\.e4m3 32 128 , 1, 1
TYPES

# kernel, left and right deep, warpgroup, BM, BN, BK, TM, TN, stages, operand type, required instruction
while read -r kernel left right warpgroup rows columns slice tall wide stages type want; do
  echo "$kernel of $type, $rows x $columns, $stages slices"
  defines=(-DWANT_$kernel -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DUNITS=1 -DWARPGROUP="$warpgroup" -DIMITATE=0 -DINTEGER=0 -DIN_PARTS=0
    -DT="$type" -DTB="$type" -DOUT="$type" -DBM="$rows" -DBN="$columns" -DBK="$slice" -DTM="$tall" -DTN="$wide" -DSTAGES="$stages"
    -DLEFT_DEEP="$left" -DRIGHT_DEEP="$right" -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;')
  cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/product.cl" | compile "$always" "$want"
done <<'LAST'
conv2d_gather_last 1 1 0 128 128 16 64 32 2 bf16 mma\.sync\.aligned\.m16n8k16
conv2d_gather_last 1 1 0 16 32 16 16 16 3 f16 mma\.sync\.aligned\.m16n8k16
conv2d_gather_last 1 1 1 128 256 32 16 256 4 bf16 wgmma\.mma_async
conv2d_gather_last 1 1 1 64 64 32 16 64 4 f16 wgmma\.mma_async
conv2d_weights_last 0 0 0 128 128 16 64 32 2 bf16 ldmatrix.*\.trans
conv2d_weights_last 0 0 0 16 32 16 16 16 3 f16 ldmatrix.*\.trans
conv2d_weights_last 0 0 1 128 256 32 16 256 4 bf16 wgmma\.mma_async.* 1, 1;
conv2d_weights_last 0 0 1 64 64 32 16 64 4 f16 wgmma\.mma_async.* 1, 1;
LAST

# unit, warpgroup, BM, BN, BK, TM, TN, operand type, required instructions
while read -r units warpgroup rows columns slice tall wide type want; do
  for kernel in gemm_forward_tiles conv2d_gather_tiles conv2d_weights_tiles; do
    if [ "$kernel" = gemm_forward_tiles ] && [ "$units" = 1 ]; then continue; fi
    if [ "$kernel" = conv2d_weights_tiles ] && [ "$type" = u8 ]; then continue; fi
    echo "$kernel of $type, $rows x $columns by $tall x $wide"
    defines=(-DWANT_$kernel -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DUNITS="$units" -DWARPGROUP="$warpgroup" -DIMITATE=0 -DINTEGER=$([ "$type" = u8 ] && echo 1 || echo 0)
      -DT="$type" -DTB="${type/u8/i8}" -DOUT="${type/u8/i32}" -DBM="$rows" -DBN="$columns" -DBK="$slice" -DTM="$tall" -DTN="$wide"
      -DLEFT_RUNS=1 -DRIGHT_RUNS=1 -DLEFT_DEEP=1 -DRIGHT_DEEP=$([ $kernel = conv2d_weights_tiles ] && echo 1 || echo 0) -DEPILOGUE_ARGS= -DEPILOGUE_USE=
      '-DEPILOGUE=const COMPUTE(T) r = i0;')
    cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/product.cl" |
      compile "$want" 'st\.shared\.v4'
  done
done <<'TILES'
0 0 128 128 16 8 8 f32 fma\.rn
0 0 64 64 16 4 4 f32 fma\.rn
1 0 128 128 16 64 32 bf16 mma\.sync\.aligned\.m16n8k16
1 0 32 32 16 16 16 f16 mma\.sync\.aligned\.m16n8k16
1 0 128 64 16 32 32 u8 mma\.sync\.aligned\.m16n8k32\.row\.col\.s32\.s8\.u8
1 1 128 64 32 16 64 bf16 wgmma\.mma_async
1 1 64 64 32 16 64 f16 wgmma\.mma_async
1 1 128 64 32 16 64 u8 wgmma\.mma_async.*s32\.s8\.u8
TILES

for tile in "32 64 8" "32 32 8" "16 32 8"; do
  read -r rows columns slice <<<"$tile"
  echo "conv2d_winograd_group, $rows rows by $columns tiles"
  defines=(-DWANT_conv2d_winograd_group -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DT=f32 -DOUT=f32 -DOUT_SIDE=2 -DBM="$rows" -DBN="$columns"
    -DBK="$slice" -DTM=8 -DTN=8 -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;')
  cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/conv2d_winograd_group.cl" |
    compile 'fma\.rn' 'ld\.shared\.v4' 'st\.shared\.v4' 'ld\.global\.v4'
done

# TEAM, BESIDE, SPREAD
while read -r team beside spread; do
  for type in f32 f16 bf16; do
    for rows in 1 4 8 16; do
      echo "$rows rows of $type, teams of $team, spread $spread"
      defines=(-DWANT_gemm_forward_few -DSUFFIX=test -DINDEX64=0 -DROLLED=0 -DT=$type -DOUT=$type -DROWS="$rows" -DIN_PARTS=0 -DTEAM="$team"
        -DBESIDE="$beside" -DSPREAD="$spread" -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;')
      cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/gemm_few.cl" |
        compile 'ld\.global\.v4' 'fma\.rn'
    done
  done
done <<'TEAMS'
32 8 0
256 1 0
8 32 1
TEAMS

echo "the gate's probes"
defines=()
"$probe" wgmma | compile '//!90a wgmma.*f32\.bf16\.bf16.* 0, 0;' '//!90a wgmma.*f32\.bf16\.bf16.* 1, 1;' \
  '//!90a wgmma.*f32\.bf16\.bf16.* 1, 0;' '//!90a wgmma.*f32\.f16\.f16' '//!90a wgmma.*k8\.f32\.tf32\.tf32'
"$probe" wgmma_bytes | compile '//!90a wgmma.*k32\.s32\.s8\.s8' '//!90a wgmma.*k32\.s32\.u8\.s8' \
  '//!90a wgmma.*k32\.s32\.s8\.u8' '//!90a wgmma.*k32\.f32\.e4m3\.e4m3'
"$probe" ptx_f8 | compile 'mma\.sync\.aligned\.m16n8k32\.row\.col\.f32\.e4m3\.e4m3\.f32'
"$probe" ptx | compile "$always" 'ldmatrix\.sync\.aligned\.m8n8\.x4\.shared' 'ldmatrix\.sync\.aligned\.m8n8\.x4\.trans' \
  'm16n8k16.*bf16' 'm16n8k16.*\.f16\.f16' 'm16n8k8.*tf32' 'm16n8k32.*\.u8\.s8' 'm16n8k32.*\.s8\.u8' 'm16n8k32.*\.s8\.s8'

own=$functions
functions+='
OWN size_t get_global_id(uint d) { return __nvvm_read_ptx_sreg_ctaid_x() * (size_t)__nvvm_read_ptx_sreg_ntid_x() + get_local_id(0); }
OWN long min(long a, long b) { return a < b ? a : b; }
OWN uint mul_hi(uint a, uint b) { return (uint)((ulong)a * b >> 32); }
OWN float sqrt(float v) { return __builtin_sqrtf(v); }
OWN int isnan(float v) { return v != v; }
OWN size_t get_local_size(uint d) { return __nvvm_read_ptx_sreg_ntid_x(); }
OWN float2 vload2(size_t i, const __global float *p) { return *(const __global float2 *)(p + 2 * i); }
OWN void vstore2(float2 v, size_t i, __global float *p) { *(__global float2 *)(p + 2 * i) = v; }
#define FOURS(T)                                                                                                 \
  OWN void vstore4(T##4 v, size_t i, __global T *p) { p[0] = v.x; p[1] = v.y; p[2] = v.z; p[3] = v.w; }          \
  OWN T##4 vload4(size_t i, const __global T *p) { return (T##4)(p[0], p[1], p[2], p[3]); }
FOURS(float)
FOURS(ushort)
FOURS(uchar)
FOURS(int)
'

# fours FILE TYPE WANT DEFINES...: a kernel file without teams, or with sums by shuffles
fours() {
  local file=$1 type=$2 want=$3
  echo "$file of $type, ${*:4}"
  defines=(-DSUFFIX=test -DINDEX64=0 -DT="$type" -DOUT="$type" -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;' "${@:4}")
  cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/$file.cl" | compile "$want"
}
for window in "3 1" "3 2" "5 1" "5 2" "0 0"; do
  read -r taps step <<<"$window"
  fours conv2d_depthwise_group f32 'st\.global\.f32' -DTAPS="$taps" -DSTEP="$step" -DWANT_conv2d_depthwise_group
  fours conv2d_depthwise_group f32 'shfl\.sync\.bfly' -DTAPS="$taps" -DSTEP="$step" -DTEAM=64 -DBESIDE=4 -DSPREAD=0 -DSHUFFLES=1 \
    -DWANT_conv2d_weights_depthwise_group
  fours pool2d_group_last f32 'ld\.global\.v4\.f32' -DWINNERS="$((step % 2))" -DMAX="$((taps % 2))" -DWANT_pool2d_forward_group_last \
    -DWANT_pool2d_backward_group_last
  fours pool2d_group f32 'ld\.global\.f32' -DTAPS="$((taps % 5))" -DWINNERS="$((step % 2))" -DMAX=1 -DWANT_pool2d_forward_group
done
fours pool2d_group f32 'st\.global\.v4\.f32' -DWANT_max_pool2d_backward_group -DWANT_avg_pool2d_backward_group
fours broadcast_group f32 'ld\.global\.v4\.f32' -DMEAN=1
for type in i32:u32 f16:u16 u8:u8; do
  moves="[ls][dt]\.global\.v4\.${type#*:}"
  fours broadcast_group ${type%:*} "$moves" -DMEAN=0
  fours frame_group ${type%:*} "$moves" -DWANT_frame_whole_group -DWANT_frame_part_group
  fours gather_group ${type%:*} "$moves"
  fours unfold ${type%:*} "$moves" -DRUN=4 -DWANT_unfold_forward_group
done
fours scatter_add_group f32 'ld\.global\.v4\.f32' -DWANT_scatter_add_group_count -DWANT_scatter_add_group_place \
  -DWANT_scatter_add_group_find -DWANT_scatter_add_group_runs -DWANT_scatter_add_group_sum
for type in f32 bf16; do
  fours dropout_group $type 'st\.global'
done
fours unfold f32 'ld\.global\.v4' -DRUN=4 -DWANT_fold_forward_group
fours top_k_count_group f32 'shfl\.sync\.bfly' -DTEAM=256 -DBESIDE=1 -DSPREAD=0 -DSHUFFLES=1 \
  -DWANT_top_k_count_forward_group_rows -DWANT_top_k_count_forward_group_join
for type in f32 bf16; do
  for shape in "1024 1 1" "128 8 0"; do
    read -r team beside shuffles <<<"$shape"
    fours batch_norm_group $type 'bar\.sync|barrier\.sync' -DTEAM="$team" -DBESIDE="$beside" -DSPREAD=1 -DSHUFFLES="$shuffles" \
      -DWANT_batch_norm_forward_group_whole -DWANT_batch_norm_grad_group_whole
  done
done
fours fft f32 'ld\.shared\.v2\.f32' -DWANT_fft_pass_group

# Updates of tensors with several rules and types, as members of a joined launch (src/plan/interpreter.c).
functions+='
OWN void vstore4(float4 v, size_t i, float *p) { p[0] = v.x; p[1] = v.y; p[2] = v.z; p[3] = v.w; }
OWN float4 vload4(size_t i, const float *p) { return (float4)(p[0], p[1], p[2], p[3]); }
OWN uint4 convert_uint4(ushort4 v) { return (uint4)(v.x, v.y, v.z, v.w); }
OWN ushort4 convert_ushort4(uint4 v) { return (ushort4)((ushort)v.x, (ushort)v.y, (ushort)v.z, (ushort)v.w); }
uint4 select_uint4(uint4 a, uint4 b, int4 c) __asm__("_Z6selectDv4_jS_Dv4_i");
uint4 select_uint4(uint4 a, uint4 b, int4 c) { return c ? b : a; }
OWN float expm1(float x) { return x * (1 + x * (0.5f + x * (1.0f / 6 + x / 24))); }
OWN float4 sqrt(float4 v) {
  return (float4)(__builtin_sqrtf(v.x), __builtin_sqrtf(v.y), __builtin_sqrtf(v.z), __builtin_sqrtf(v.w));
}'
bases='' list='' choice='' cases='' members=''
for k in {0..23}; do
  bases+="${bases:+, }__global char *base$k" list+="${list:+, }base$k"
  choice+=$([ "$k" -lt 23 ] && echo "k == $k ? base$k : " || echo "base$k")
done
member=0
for update in "0 f32 f32 3" "1 f32 f32 5" "2 f32 f32 7" "2 bf16 bf16 7" "3 f32 f32 5" "4 f32 f32 7" "5 f32 bf16 3" "6 f32 f32 3"; do
  read -r rule type gradient memories <<<"$update"
  arguments='' word=0
  for ((k = 0; k < memories + 4; k++, word += 2)); do arguments+=", MEMORY($word)"; done
  arguments+=", INT($word), INT($((word + 1)))"
  for ((k = word + 2; k < word + 10; k++)); do arguments+=", FLOAT($k)"; done
  cases+="case $member: ITEM(update_forward_group, $member)(item$arguments); break; "
  members+="
#define SUFFIX test_$member
#define RULE $rule
#define T $type
#define G $gradient
#include \"update.cl\"
#undef SUFFIX
#undef RULE
#undef T
#undef G
"
  member=$((member + 1))
done
echo "joined launch of updates"
defines=(-DINDEX64=0 -DITEMS=256 -DWANT_update_forward_group "-DCASES=$cases" "-DBASES=$bases" "-DBASE_LIST=$list" "-DCHOICE=$choice")
{ cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl
  printf '#undef CLADE_ENTRY\n#define CLADE_ENTRY static inline\n%s\n' "$members"
  printf '#undef CLADE_ENTRY\n#define CLADE_ENTRY __kernel\n#define SUFFIX test\n'
  cat "$root/cl_kernels/joined.cl"; } | compile 'ld\.global\.v4\.f32' 'st\.global\.v4\.f32' 'sqrt\.rn'

functions=$own
PTXAS="" # the following kernels call exp and others, which the driver provides
echo "teams of work-items, with shuffles"
for team in "8 32" "256 1"; do
  read -r size beside <<<"$team"
  for type in f16 bf16 f32; do
    defines=(-DSUFFIX=test -DINDEX64=0 -DT=$type -DY=$type -DFROM=$type -DKIND=0 -DDIRECT=1 -DLOG=0 -DRUNS=0 -DTEAM="$size"
      -DBESIDE="$beside" -DSPREAD=0 -DSHUFFLES=1 -DWANT_softmax_forward_group -DWANT_softmax_grad_group
      -DWANT_reduce_forward_group -DWANT_layer_norm_forward_group -DWANT_layer_norm_grad_group
      -DWANT_layer_norm_grad_group_runs)
    cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/softmax_group.cl" "$root/cl_kernels/reduce_group.cl" \
      "$root/cl_kernels/layer_norm_group.cl" | compile 'shfl\.sync\.bfly\.b32.*31, 0xffffffff'
  done
done

echo "teams of work-items: batch norm, losses, arg_max"
for team in "8 32" "256 1"; do
  read -r size beside <<<"$team"
  for type in f16 bf16 f32; do
    defines=(-DSUFFIX=test -DINDEX64=0 -DT=$type -DFIRST=1 -DDIRECT=1 -DTEAM="$size" -DBESIDE="$beside" -DSPREAD=0
      -DSHUFFLES=1 -DEPILOGUE_ARGS= -DEPILOGUE_USE= '-DEPILOGUE=const COMPUTE(T) r = i0;'
      -DWANT_batch_norm_forward_group_moments -DWANT_batch_norm_forward_group_scale -DWANT_batch_norm_grad_group_sums
      -DWANT_batch_norm_grad_group_spread -DWANT_cross_entropy_forward_group_rows -DWANT_cross_entropy_grad_group
      -DWANT_square_sum_part_group)
    want=('shfl\.sync\.bfly\.b32.*31, 0xffffffff')
    if [ $type = f32 ]; then want+=('ld\.global\.v4\.f32' 'st\.global\.v4\.f32'); fi
    cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl \
      "$root"/cl_kernels/{batch_norm,cross_entropy,square_sum,arg_max}_group.cl | compile "${want[@]}"
  done
done
