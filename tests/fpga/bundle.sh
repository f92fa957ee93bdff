#!/bin/sh
# A bundle for the accelerator whose array_i8 is in RTL: bundle.sh CLADE DEVICE. It loads there, and the simulated array
# computes its self-test and products of bytes; the accelerator without RTL refuses it.
set -e
export CLADE_BUNDLE_PATH="$HOME/rtl.bundle"
rm -f "$CLADE_BUNDLE_PATH"
"$1" pack build --target rtl --output "$CLADE_BUNDLE_PATH" >/dev/null
"$1" pack inspect "$CLADE_BUNDLE_PATH" | grep "device .*array_i8: RTL"
"$1" bench compare --quick --only i8 --device "rtl:$2" 2>&1 | tee "$HOME/rows"
test "$(grep -c "gemm i8 .* rtl-simulated$" "$HOME/rows")" = 4
if "$1" infer --demo mlp --device emulated >"$HOME/refused" 2>&1; then exit 1; fi
grep "is for \"Clade emulated accelerator (array_i8: RTL" "$HOME/refused"
