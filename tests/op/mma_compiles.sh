#!/usr/bin/env bash
# Compiles the matrix-unit kernels with real instead of emulated instructions to machine code, on any machine.
#   mma_compiles.sh ROOT CLANG
set -euo pipefail
root=$1 clang=$2
epilogue='-DEPILOGUE_ARGS= -DEPILOGUE_PASS= -DEPILOGUE_USE='
for kind in "mma 0 12" "mma 1 32" "mma_bare 0 12"; do
  read -r kernel tiles rows <<<"$kind"
  for types in "u8 i8 i32 1" "i8 i8 i32 1" "bf16 bf16 bf16 0"; do
    read -r a b out integer <<<"$types"
    for plain in 0 1; do
      # shellcheck disable=SC2086
      code=$(cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/gemm_mma.cl" |
        "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header --target=x86_64-linux-gnu -march=skylake-avx512 \
          -I "$root/cl_kernels" -O1 -S -o - -DSUFFIX=test -DINDEX64=0 -DWANT_gemm_forward_"$kernel" -DIMITATE=0 -DTILES="$tiles" -DTM="$rows" -DLINE=272 -DBM=258 -DWIDE=0 \
          -DINTEGER="$integer" -DPLAIN="$plain" -DT="$a" -DTB="$b" -DOUT="$out" $epilogue \
          '-DEPILOGUE=const COMPUTE(T) r = i0;' -w -)
      case $tiles$a in
      0u8 | 0i8) want='vpdpbusd.*%zmm' ;;
      0bf16) want='vdpbf16ps.*%zmm' ;;
      1u8) want='tdpbusd.*%tmm' ;;
      1i8) want='tdpbssd.*%tmm' ;;
      1bf16) want='tdpbf16ps.*%tmm' ;;
      esac
      found=$(grep -cE "$want" <<<"$code" || true)
      echo "$kernel, tiles $tiles, $a by $b, plain $plain: $found times ${want%%.*}"
      [ "$found" -gt 0 ]
      # the assembler itself
      "$clang" --target=x86_64-linux-gnu -march=skylake-avx512 -c -x assembler - -o /dev/null <<<"$code"
    done
  done
done
# conv TILES KERNEL A B OUT INTEGER WANT [DEFINE…]
conv() {
  local tiles=$1 kernel=$2 a=$3 b=$4 out=$5 integer=$6 want=$7
  # shellcheck disable=SC2086
  code=$(cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/$kernel.cl" |
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header --target=x86_64-linux-gnu -march=skylake-avx512 \
      -I "$root/cl_kernels" -O1 -S -o - -DSUFFIX=test -DINDEX64=0 -DWANT_"$kernel" -DIMITATE=0 -DTILES="$tiles" -DWIDE=0 \
      -DMOST_TAPS=128 -DMOST_LINES=160 -DINTEGER="$integer" -DT="$a" -DTB="$b" -DOUT="$out" $epilogue \
      '-DEPILOGUE=const COMPUTE(T) r = i0;' -w "${@:8}" -)
  found=$(grep -cE "$want" <<<"$code" || true)
  echo "$kernel, $a by $b, ${*:8}: $found times ${want%%.*}"
  [ "$found" -gt 0 ]
  "$clang" --target=x86_64-linux-gnu -march=skylake-avx512 -c -x assembler - -o /dev/null <<<"$code"
}
for types in "u8 i8 i32 1 4 tdpbusd" "i8 i8 i32 1 4 tdpbssd" "bf16 bf16 bf16 0 8 tdpbf16ps"; do
  read -r a b out integer words tile <<<"$types"
  vector='vpdpbusd.*%zmm'
  [ "$integer" = 1 ] || vector='vdpbf16ps.*%zmm'
  for dense in 0 1; do
    conv 0 conv2d_mma "$a" "$b" "$out" "$integer" "$vector" -DWORDS="$words" -DDENSE="$dense" -DPIECE=7 -DPIECES=2
    conv 1 conv2d_mma "$a" "$b" "$out" "$integer" "$tile.*%tmm" -DWORDS="$words" -DDENSE="$dense" -DPIECE=16 -DPIECES=2
  done
done
conv 0 conv2d_weights_mma bf16 bf16 f32 0 'vdpbf16ps.*%zmm'
conv 1 conv2d_weights_mma bf16 bf16 f32 0 'tdpbf16ps.*%tmm'
