#!/usr/bin/env bash
# Configures a preset beside the tested build and builds some targets; or runs its tests that match a regular expression
# and have a label; or fails if the path of a compiled or included file matches one.
#   run.sh build FOLDER SOURCE PRESET TARGETS [CMAKE OPTION…]
#   run.sh test FOLDER TESTS [LABEL]    default: sanitized
#   run.sh unread FOLDER FILES
set -euo pipefail
step=$1 build=$2
mkdir -p "$build"
shift 2
unset HOME XDG_CACHE_HOME POCL_CACHE_DIR CLADE_CACHE_DIR # each test sets its own
case $step in
  build)
    source=$1 preset=$2 targets=$3
    shift 3
    cmake -S "$source" --preset "$preset" -B "$build" -DCLADE_EXAMPLES=OFF "$@" >"$build.log" 2>&1 ||
      { cat "$build.log"; exit 1; }
    # shellcheck disable=SC2086 # several words
    exec cmake --build "$build" --target $targets -- -j 1 --quiet
    ;;
  test) # A run without any test must fail.
    exec ctest --test-dir "$build" --output-on-failure --no-tests=error -j 3 -L "${2-sanitized}" -R "$1"
    ;;
  unread)
    ninja -C "$build" -t deps >"$build.deps"
    grep -q 'src/base/base\.h$' "$build.deps"
    if grep -E "$1" "$build.deps"; then exit 1; fi
    ;;
esac
