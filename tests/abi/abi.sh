#!/usr/bin/env bash
# Compares the library's binary interface with the recorded one, or replaces it (docs/abi.md).
#   abi.sh check|update FOLDER SOURCE COMPILER [CMAKE OPTION…]
# FOLDER holds a separate build, since the interface is read from debugging information. Skips (77) without abidiff, or
# with another compiler release than the recorded interface's.
set -euo pipefail
step=$1 build=$2 source=$3 compiler=$4
shift 4
baseline=$source/tests/abi/libclade.abi release=12 # GCC of Debian 12
command -v abidiff >/dev/null || { echo "skipped: abidiff is not installed (Debian: abigail-tools)"; exit 77; }
[[ $("$compiler" -dumpversion) == "$release"* ]] || { echo "skipped: the baseline is GCC $release's, and this is another compiler"; exit 77; }
mkdir -p "$build"
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-g -O0 -w" \
  -DCLADE_CLI=OFF -DCLADE_EXAMPLES=OFF -DCLADE_TESTS=OFF "$@" >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" --target clade -- -j "$(nproc)" --quiet
# Without declarations outside of the headers, and without source locations.
abidw --suppressions "$source/tests/abi/private.abignore" --exported-interfaces-only --type-id-style hash --no-corpus-path \
  --no-comp-dir-path --no-show-locs --out-file "$build.abi" "$build/libclade.so"
if [[ $step == update ]]; then
  cp "$build.abi" "$baseline"
  echo "written: $baseline"
  exit
fi

differs() { # from the recorded file; additions do not count
  local status=0
  abidiff --no-added-syms "$1" "$build.abi" >"$build.diff" || status=$?
  ((status & 3)) && { cat "$build.diff"; echo "abidiff failed"; exit 1; }
  ((status))
}
if differs "$baseline"; then
  cat "$build.diff"
  echo "The binary interface has changed: docs/abi.md says which changes may be, and how the baseline follows."
  exit 1
fi
# The check must detect a removed function, a struct of another size, and an enumerator with another value.
for plant in "s/clade_execute\b/clade_executed/g" "/name='clade_device_info'/s/size-in-bits='[0-9]*'/size-in-bits='64'/" "s/\(enumerator name='CLADE_CANCELED' value='\)[0-9]*/\1 99/"; do
  sed "$plant" "$baseline" >"$build.planted"
  cmp -s "$baseline" "$build.planted" && { echo "the baseline has nothing that $plant replaces"; exit 1; }
  differs "$build.planted" || { echo "not found: $plant"; exit 1; }
done
echo "the binary interface is the baseline's, and three planted differences were found"
