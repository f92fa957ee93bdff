#!/usr/bin/env bash
# Configures a preset beside the build that is being tested and builds targets of it, or runs its tests that are marked
# SANITIZED and match a regular expression.
#   run.sh build FOLDER SOURCE PRESET TARGETS [OPTION OF CMAKE…]
#   run.sh test FOLDER TESTS
set -euo pipefail
step=$1 build=$2
mkdir -p "$build"
shift 2
unset HOME XDG_CACHE_HOME POCL_CACHE_DIR CLADE_CACHE_DIR # each test brings its own
case $step in
  build)
    source=$1 preset=$2 targets=$3
    shift 3
    cmake -S "$source" --preset "$preset" -B "$build" -DCLADE_EXAMPLES=OFF "$@" >"$build.log" 2>&1 ||
      { cat "$build.log"; exit 1; }
    # shellcheck disable=SC2086 # several words
    exec cmake --build "$build" --target $targets -- -j 1 --quiet
    ;;
  test) # A run without any test must not pass.
    exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j 3 -L sanitized -R "$1"
    ;;
esac
