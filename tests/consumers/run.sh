#!/usr/bin/env bash
# Installs a build of Clade into its own prefix, and builds and runs programs with it, out of tree: by CMake (shared,
# static, C++17) and by pkg-config (shared, static; C++17 and C++20 if CXX exists). Checks the installed
# documentation.
#   run.sh BUILD SOURCE VERSION CC CXX FPGA    FPGA: the value of CLADE_FPGA
set -euo pipefail
build=$1 source=$2 version=$3 cc=$4 cxx=$5 fpga=$6
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
prefix=$room/prefix
cp "$source"/consumer.c "$source"/consumer.cl "$source"/*.cpp "$room"
mkdir "$room/cmake"
cp "$source/project.cmake" "$room/cmake/CMakeLists.txt"
cmake --install "$build" --prefix "$prefix" >"$room/install.log"
warnings="-Wall -Wextra -Wpedantic -Werror"

cmake -S "$room/cmake" -B "$room/out" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DVERSION="$version" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_C_FLAGS="$warnings" -DCMAKE_CXX_FLAGS="$warnings" >"$room/configure.log" || { cat "$room/configure.log"; exit 1; }
cmake --build "$room/out"
for program in shared static cxx; do
  echo "== CMake, $program"
  "$room/out/$program"
done

if [ "$fpga" = ON ]; then
  echo "== CMake, a bundle of a kernel; what no tool is here for is said to be skipped, and is no target"
  shown=$("$prefix/bin/clade" pack inspect "$room/out/own.bundle")
  [[ $shown == *"own_scale(global float * x [read], int n [value], global float * y [read-write])"* && $shown == *SCALE=2* ]]
  "$prefix/bin/clade" pack inspect "$room/out/rtl_kernels.bundle" | grep "device .*array_i8: RTL"
  for pair in "intel_board aoc" "xilinx_platform v++"; do
    read -r name tool <<<"$pair"
    if command -v "$tool" >/dev/null; then continue; fi
    grep "$name: skipped.*needs $tool" "$room/configure.log"
    if cmake --build "$room/out" --target "$name" >/dev/null 2>&1; then echo "$name is a target" >&2; exit 1; fi
  done
else
  grep "own: skipped, because Clade was built with -DCLADE_FPGA=OFF" "$room/configure.log"
fi

# A version that does not exist must be refused.
if cmake -S "$room/cmake" -B "$room/refused" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DVERSION=99.0 >"$room/refused.log" 2>&1
then echo "version 99.0 was found" >&2; exit 1; fi

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name clade.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir clade)
[ "$(pkg-config --modversion clade)" = "$version" ]
echo "== pkg-config, shared"
# shellcheck disable=SC2046,SC2086 # flags are words
$cc -std=c11 $warnings "$room/consumer.c" $(pkg-config --cflags --libs clade) -o "$room/shared"
LD_LIBRARY_PATH=$libdir "$room/shared"
echo "== pkg-config, static"
# shellcheck disable=SC2046,SC2086
$cc -std=c11 $warnings "$room/consumer.c" $(pkg-config --cflags clade) "$libdir/libclade.a" \
  $(pkg-config --static --libs-only-l clade | sed 's/-lclade//') -o "$room/static"
"$room/static"

echo "== clade-probe, beside the library"
probe=$libdir/clade/clade-probe
# Answers on descriptor 3; zeros match no device and no probe.
[[ $("$probe" 0 0 vnni 0 1 3>&1 || true) == "unknown clade-probe is of another version of Clade" ]]

# Designated initializers need C++20; the other program works with both.
if command -v "$cxx" >/dev/null; then
  for program in 17:consumer 20:consumer 20:first_program 20:macros; do
    echo "== pkg-config, $cxx, C++${program/:/, }"
    # shellcheck disable=SC2046,SC2086
    $cxx -std=c++"${program%:*}" $warnings "$room/${program#*:}.cpp" $(pkg-config --cflags --libs clade) -o "$room/program"
    LD_LIBRARY_PATH=$libdir "$room/program"
  done
else
  echo "== $cxx is not here"
fi

echo "== manual pages and the API reference"
pages=("share/doc/clade/api/README.md" "share/man/man1/clade.1")
for header in "$prefix"/include/clade/*.h; do pages+=("share/doc/clade/api/$(basename "$header" .h).md"); done
for command in $("$prefix/bin/clade" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do pages+=("share/man/man1/clade-$command.1"); done
for page in "${pages[@]}"; do
  [[ -s $prefix/$page ]] || { echo "$page is not installed" >&2; exit 1; }
done
echo "${#pages[@]} pages"

echo "== who needs what"
needed() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' | sort | tr '\n' ' '; }
[[ "$(needed "$room/shared")" == *libclade.so.0* ]]
for file in "$libdir/libclade.so" "$probe" "$room/static" "$room/out/static"; do
  echo "$(basename "$file"): $(needed "$file")"
  for library in $(needed "$file"); do
    case $library in
      libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | ld-linux*) ;;
      libjansson.so.4 | libcrypto.so.3 | libz.so.1) ;;
      *) echo "$file needs $library" >&2; exit 1 ;;
    esac
  done
done
