# clade_add_test(NAME [SERIAL] [LONG] [SANITIZED] [LAYER] [ALL_ICDS] [CACHED] [COST seconds] [TIMEOUT seconds]
#                [ENVIRONMENT VAR=value…] COMMAND …)
# A test with directories of its own: processes that share a cache of PoCL's can kill each other.
#   SERIAL    runs alone: it measures time
#   LONG      too long for CI: only in the preset `long`
#   SANITIZED runs in the builds of tests/builds as well: clang, and each sanitizer
#   LAYER     OpenCL goes through tests/layer
#   ALL_ICDS  every OpenCL implementation of the machine, rusticl enabled; else PoCL alone. Not under a sanitizer, where
#             only PoCL can be loaded
#   CACHED    with a program cache. It costs half as much again as compiling does, because PoCL compiles each kernel a
#             second time for a file; of these tests, those have it that are about it or whose processes share it
#   COST      those of most seconds begin first, so that none of them ends alone
option(CLADE_TESTS_LONG "Add the tests that are too long for CI" OFF)
set(CLADE_TEST_HOMES ${PROJECT_BINARY_DIR}/homes CACHE PATH "Where tests have their directories, caches among them")
set(CLADE_POCL_ICD /etc/OpenCL/vendors/pocl.icd CACHE FILEPATH "The .icd file of PoCL, for the tests")

# Of hundreds of programs: it links in a third of the time.
find_program(CLADE_GOLD ld.gold)
if(CLADE_GOLD)
  add_link_options(-fuse-ld=gold)
endif()

# What is named as a program, or as $<TARGET_FILE:program>, the target `sanitized` builds.
add_custom_target(sanitized)
add_dependencies(sanitized clade_probe)
function(clade_needed_by_sanitized)
  foreach(word IN LISTS ARGN)
    string(REGEX MATCHALL "TARGET_FILE:[^>]+" files "${word}")
    string(REPLACE "TARGET_FILE:" "" files "${files}")
    foreach(target IN LISTS word files)
      if(TARGET ${target})
        add_dependencies(sanitized ${target})
      endif()
    endforeach()
  endforeach()
endfunction()

function(clade_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "SERIAL;LONG;SANITIZED;LAYER;ALL_ICDS;CACHED" "TIMEOUT;COST" "ENVIRONMENT;COMMAND")
  if((test_LONG AND NOT CLADE_TESTS_LONG) OR (test_ALL_ICDS AND CLADE_SANITIZE))
    return()
  endif()
  set(home ${CLADE_TEST_HOMES}/${name})
  file(MAKE_DIRECTORY ${home}/pocl ${home}/clade)
  file(CHMOD ${home}/clade PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(cache off)
  if(test_CACHED)
    set(cache ${home}/clade)
  endif()
  set(environment HOME=${home} XDG_CACHE_HOME=${home} POCL_CACHE_DIR=${home}/pocl CLADE_CACHE_DIR=${cache}
    CLADE_PROBE_DIR=${PROJECT_BINARY_DIR})
  if(test_ALL_ICDS)
    list(APPEND environment RUSTICL_ENABLE=llvmpipe)
  else()
    list(APPEND environment OCL_ICD_VENDORS=${CLADE_POCL_ICD})
  endif()
  if(test_LAYER)
    list(APPEND environment OPENCL_LAYERS=$<TARGET_FILE:clade_layer>)
  endif()
  if(CLADE_SANITIZE)
    # PoCL's LLVM gives threads a signal stack of its own, which AddressSanitizer would take for its own at their end.
    # GCC's runtime before 14 takes one block of thread-local variables in 256 for one with the header of an older glibc,
    # and LeakSanitizer then dies of the length that it reads there.
    list(APPEND environment ASAN_OPTIONS=use_sigaltstack=0:intercept_tls_get_addr=0 LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0
      UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1)
  endif()
  set(timeout 600)
  set(labels "")
  if(NOT test_COST)
    set(test_COST 0)
  endif()
  if(test_LONG)
    set(timeout 3600)
    list(APPEND labels long)
  endif()
  if(test_TIMEOUT)
    set(timeout ${test_TIMEOUT})
  endif()
  if(test_SERIAL)
    list(APPEND labels serial)
  endif()
  if(test_SANITIZED)
    list(APPEND labels sanitized)
    clade_needed_by_sanitized(${test_COMMAND} ${environment} ${test_ENVIRONMENT})
  endif()
  add_test(NAME ${name} COMMAND ${test_COMMAND})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment};${test_ENVIRONMENT}" TIMEOUT ${timeout}
    LABELS "${labels}" RUN_SERIAL ${test_SERIAL} COST ${test_COST})
endfunction()
