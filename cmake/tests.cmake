# clade_add_test(NAME [ALL | LONG] [SERIAL] [SANITIZED] [SANITIZER] [LAYER] [ALL_ICDS] [CACHED] [COST seconds]
#                [TIMEOUT seconds] [HOME name] [ENVIRONMENT VAR=value…] [PROPERTIES NAME VALUE…] COMMAND …)
# Adds a test with cache directories of its own, because processes that share a PoCL cache can crash each other.
#   ALL        level `./quickstart test all`; by default a test belongs to the gate, `./quickstart test`
#   LONG       takes minutes: only in the preset `long`
#   SERIAL     runs alone, because it measures time
#   SANITIZED  also runs in the builds of tests/builds, with each sanitizer
#   SANITIZER  the program is compiled with AddressSanitizer in every build
#   LAYER      OpenCL calls go through tests/layer
#   ALL_ICDS   sees all OpenCL implementations, with rusticl enabled; by default PoCL only. Not added in sanitizer builds,
#              where only PoCL can be loaded
#   CACHED     has a program cache and PoCL's specialized kernels, for tests about them or with several processes. Slow:
#              PoCL compiles each kernel for one work-group size, for any size, and again for a file
#   HOME       directory shared by tests of the same kernels; they run one after another and reuse compiled kernels
#   COST       expected seconds; expensive tests start first, so that none of them runs alone at the end
#   PROPERTIES properties of ctest
# A test above CLADE_TESTS_LEVEL is not added, and programs that only such tests need are not built (target `tests`). The
# level is a label of the test: `ctest -L gate`.
set(CLADE_TESTS_LEVEL gate CACHE STRING "Tests to add: gate, all or long")
set(CLADE_TESTS_LEVELS gate all long)
set_property(CACHE CLADE_TESTS_LEVEL PROPERTY STRINGS ${CLADE_TESTS_LEVELS})
if(NOT CLADE_TESTS_LEVEL IN_LIST CLADE_TESTS_LEVELS)
  message(FATAL_ERROR "CLADE_TESTS_LEVEL is \"${CLADE_TESTS_LEVEL}\": expected gate, all or long")
endif()
set(CLADE_TEST_HOMES ${PROJECT_BINARY_DIR}/homes CACHE PATH "Where tests have their directories, caches among them")
set(CLADE_POCL_ICD /etc/OpenCL/vendors/pocl.icd CACHE FILEPATH "The .icd file of PoCL, for the tests")
set(OCLGRIND_ICD /usr/lib/oclgrind/liboclgrind-rt-icd.so CACHE FILEPATH "Oclgrind's OpenCL, for the tests")

# gold links hundreds of test programs faster than the default linker.
find_program(CLADE_GOLD ld.gold)
if(CLADE_GOLD)
  add_link_options(-fuse-ld=gold)
endif()

# The targets `tests` and `sanitized` build the programs that tests, or SANITIZED tests, name as a command or by
# $<TARGET_FILE:program>.
add_custom_target(tests ALL)
add_custom_target(sanitized)
add_dependencies(tests clade_probe)
add_dependencies(sanitized clade_probe)
function(clade_needed_by goal)
  foreach(word IN LISTS ARGN)
    string(REGEX MATCHALL "TARGET_FILE:[^>]+" files "${word}")
    string(REPLACE "TARGET_FILE:" "" files "${files}")
    foreach(target IN LISTS word files)
      if(TARGET ${target})
        add_dependencies(${goal} ${target})
      endif()
    endforeach()
  endforeach()
endfunction()

function(clade_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "ALL;LONG;SERIAL;SANITIZED;SANITIZER;LAYER;ALL_ICDS;CACHED" "TIMEOUT;COST;HOME"
    "ENVIRONMENT;PROPERTIES;COMMAND")
  set(level gate)
  set(timeout 600)
  if(test_LONG)
    set(level long)
    set(timeout 3600)
  elseif(test_ALL)
    set(level all)
  endif()
  list(FIND CLADE_TESTS_LEVELS ${level} its)
  list(FIND CLADE_TESTS_LEVELS ${CLADE_TESTS_LEVEL} highest)
  if(its GREATER highest OR (test_ALL_ICDS AND CLADE_SANITIZE))
    return()
  endif()
  set(lock "")
  if(test_HOME)
    set(home ${CLADE_TEST_HOMES}/${test_HOME})
    set(lock RESOURCE_LOCK ${test_HOME})
  else()
    set(home ${CLADE_TEST_HOMES}/${name})
  endif()
  file(MAKE_DIRECTORY ${home}/pocl ${home}/clade)
  file(CHMOD ${home}/clade PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(environment HOME=${home} XDG_CACHE_HOME=${home} POCL_CACHE_DIR=${home}/pocl CLADE_PROBE_DIR=${PROJECT_BINARY_DIR})
  if(test_CACHED)
    list(APPEND environment CLADE_CACHE_DIR=${home}/clade)
  else()
    list(APPEND environment CLADE_CACHE_DIR=off POCL_WORK_GROUP_SPECIALIZATION=0)
  endif()
  if(test_ALL_ICDS)
    list(APPEND environment RUSTICL_ENABLE=llvmpipe)
  else()
    list(APPEND environment OCL_ICD_VENDORS=${CLADE_POCL_ICD})
  endif()
  if(test_LAYER)
    list(APPEND environment OPENCL_LAYERS=$<TARGET_FILE:clade_layer>)
  endif()
  if(CLADE_SANITIZE OR test_SANITIZER)
    # use_sigaltstack: PoCL's LLVM installs signal stacks for threads, which AddressSanitizer would free as its own.
    # intercept_tls_get_addr: runtimes of GCC before 14 mistake one in 256 blocks of thread-local variables for a block of
    # an older glibc, and LeakSanitizer crashes on the wrong length.
    list(APPEND environment ASAN_OPTIONS=use_sigaltstack=0:intercept_tls_get_addr=0 LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0
      UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1)
  endif()
  set(labels ${level})
  if(NOT test_COST)
    set(test_COST 0)
  endif()
  if(test_TIMEOUT)
    set(timeout ${test_TIMEOUT})
  endif()
  if(test_SERIAL)
    list(APPEND labels serial)
  endif()
  if(test_SANITIZED)
    list(APPEND labels sanitized)
    clade_needed_by(sanitized ${test_COMMAND} ${environment} ${test_ENVIRONMENT})
  endif()
  clade_needed_by(tests ${test_COMMAND} ${environment} ${test_ENVIRONMENT})
  add_test(NAME ${name} COMMAND ${test_COMMAND})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment};${test_ENVIRONMENT}" TIMEOUT ${timeout}
    LABELS "${labels}" RUN_SERIAL ${test_SERIAL} COST ${test_COST} ${lock}
    ${test_PROPERTIES})
endfunction()
