#!/bin/sh
# The bundle of all kernels, built by the command, on the emulated accelerator: kernels.sh CLADE LENET5 OP_TEST FALLBACK
set -e
export CLADE_BUNDLE_PATH="$HOME/kernels.bundle"
rm -rf "$CLADE_BUNDLE_PATH"
"$1" pack build --target pocl --output "$CLADE_BUNDLE_PATH" >/dev/null
"$1" pack verify "$CLADE_BUNDLE_PATH"
"$2"
"$4"
"$1" infer --demo mlp --device emulated --fallback pocl --explain | grep -q "softmax .* on Clade emulated accelerator: systolic"
for op in gemm conv2d conv2d_data conv2d_weights max_pool2d avg_pool2d softmax softmax_grad arg_max cross_entropy reduce update batch_norm batch_norm_grad broadcast; do
  "$3" --op $op --device emulated --dtype f32 --impl systolic --cases 12
done
for op in max_pool2d_grad avg_pool2d_grad; do
  "$3" --op $op --device emulated --dtype f32 --impl systolic_grad --cases 12
done
"$3" --op gemm --device emulated --dtype i8 --impl systolic_i8 --cases 12
