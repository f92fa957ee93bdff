# clade_add_test(NAME [ALL | LONG] [SERIAL] [SANITIZED] [SANITIZER] [LAYER] [ALL_ICDS] [CACHED] [COST seconds]
#                [TIMEOUT seconds] [HOME name] [ENVIRONMENT VAR=value…] [PROPERTIES NAME VALUE…] COMMAND …)
# A test with directories of its own: processes that share a cache of PoCL's can kill each other.
#   ALL       left to `./quickstart test all`; a test without a level is part of the gate, `./quickstart test`
#   LONG      takes minutes: only in the preset `long`
#   SERIAL    runs alone: it measures time
#   SANITIZED runs in the builds of tests/builds as well: each sanitizer
#   SANITIZER its program is compiled for AddressSanitizer in any build
#   LAYER     OpenCL goes through tests/layer
#   ALL_ICDS  every OpenCL implementation of the machine, rusticl enabled; else PoCL alone. Not under a sanitizer, where
#             only PoCL can be loaded
#   CACHED    with a program cache, and with PoCL's variants of kernels. It costs several times what compiling once does:
#             PoCL compiles each kernel for one size of work-groups and for any, and once more for a file. Of these tests,
#             those have it that are about it or whose processes share it
#   HOME      one name for tests of the same kernels: they run one after another, and what one has compiled is there for the
#             next
#   COST      those of most seconds begin first, so that none of them ends alone
#   PROPERTIES of ctest's
# A test above the level of the build is not added, and what only such tests run is not built (target `tests`). The level
# is a label of the test: `ctest -L gate`.
set(CLADE_TESTS_LEVEL gate CACHE STRING "Tests to add: gate, all or long")
set(CLADE_TESTS_LEVELS gate all long)
set_property(CACHE CLADE_TESTS_LEVEL PROPERTY STRINGS ${CLADE_TESTS_LEVELS})
if(NOT CLADE_TESTS_LEVEL IN_LIST CLADE_TESTS_LEVELS)
  message(FATAL_ERROR "CLADE_TESTS_LEVEL is \"${CLADE_TESTS_LEVEL}\": expected gate, all or long")
endif()
set(CLADE_TEST_HOMES ${PROJECT_BINARY_DIR}/homes CACHE PATH "Where tests have their directories, caches among them")
set(CLADE_POCL_ICD /etc/OpenCL/vendors/pocl.icd CACHE FILEPATH "The .icd file of PoCL, for the tests")
set(OCLGRIND_ICD /usr/lib/oclgrind/liboclgrind-rt-icd.so CACHE FILEPATH "Oclgrind's OpenCL, for the tests")

# Of hundreds of programs: it links in a third of the time.
find_program(CLADE_GOLD ld.gold)
if(CLADE_GOLD)
  add_link_options(-fuse-ld=gold)
endif()

# What tests name as a program, or as $<TARGET_FILE:program>, is built with `tests`, and of those that are SANITIZED with
# `sanitized`.
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
    # PoCL's LLVM gives threads a signal stack of its own, which AddressSanitizer would take for its own at their end.
    # GCC's runtime before 14 takes one block of thread-local variables in 256 for one with the header of an older glibc,
    # and LeakSanitizer then dies of the length that it reads there.
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
