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
for types in "u8 i8 i32 1 4" "i8 i8 i32 1 4" "bf16 bf16 bf16 0 8"; do
  read -r a b out integer words <<<"$types"
  for dense in 0 1; do
    # shellcheck disable=SC2086
    code=$(cat "$root/include/clade/dtypes.h" "$root"/cl_kernels/prelude*.cl "$root/cl_kernels/conv2d_mma.cl" |
      "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header --target=x86_64-linux-gnu -march=skylake-avx512 \
        -I "$root/cl_kernels" -O1 -S -o - -DSUFFIX=test -DINDEX64=0 -DWANT_conv2d_mma -DIMITATE=0 -DWIDE=0 -DDENSE="$dense" \
        -DWORDS="$words" -DPIECE=7 -DPIECES=2 -DMOST_TAPS=128 -DINTEGER="$integer" -DT="$a" -DTB="$b" -DOUT="$out" $epilogue \
        -DEPILOGUE_SOON= '-DEPILOGUE=const COMPUTE(T) r = i0;' -w -)
    want='vpdpbusd.*%zmm'
    [ "$integer" = 1 ] || want='vdpbf16ps.*%zmm'
    found=$(grep -cE "$want" <<<"$code" || true)
    echo "conv2d, dense $dense, $a by $b: $found times ${want%%.*}"
    [ "$found" -gt 0 ]
    "$clang" --target=x86_64-linux-gnu -march=skylake-avx512 -c -x assembler - -o /dev/null <<<"$code"
  done
done
