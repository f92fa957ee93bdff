#!/usr/bin/env bash
# Configures a preset beside the build that is being tested, builds targets of it, and runs its tests that are marked
# SANITIZED and match a regular expression.
#   run.sh SOURCE FOLDER PRESET TARGETS TESTS [OPTION OF CMAKE…]
set -euo pipefail
source=$1 build=$2/$3 preset=$3 targets=$4 tests=$5
mkdir -p "$2"
shift 5
unset HOME XDG_CACHE_HOME POCL_CACHE_DIR CLADE_CACHE_DIR # each test brings its own
cmake -S "$source" --preset "$preset" -B "$build" -DCLADE_EXAMPLES=OFF "$@" >"$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
# shellcheck disable=SC2086 # several words
cmake --build "$build" --target $targets -- -j 2 --quiet
# A run without any test must not pass.
exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j 2 -L sanitized -R "$tests"
