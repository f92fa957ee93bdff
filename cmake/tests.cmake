# clade_add_test(NAME [SERIAL] [LONG] [LAYER] [ALL_ICDS] [TIMEOUT seconds] [ENVIRONMENT VAR=value…] COMMAND …)
# A test with directories of its own: processes that share a cache of PoCL's can kill each other.
#   SERIAL    runs alone: it measures time
#   LONG      too long for CI: only in the preset `long`
#   LAYER     OpenCL goes through tests/layer
#   ALL_ICDS  every OpenCL implementation of the machine, rusticl enabled; else PoCL alone. Not under a sanitizer, where
#             only PoCL can be loaded
option(CLADE_TESTS_LONG "Add the tests that are too long for CI" OFF)
set(CLADE_POCL_ICD /etc/OpenCL/vendors/pocl.icd CACHE FILEPATH "The .icd file of PoCL, for the tests")

function(clade_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "SERIAL;LONG;LAYER;ALL_ICDS" "TIMEOUT" "ENVIRONMENT;COMMAND")
  if((test_LONG AND NOT CLADE_TESTS_LONG) OR (test_ALL_ICDS AND CLADE_SANITIZE))
    return()
  endif()
  set(home ${PROJECT_BINARY_DIR}/homes/${name})
  file(MAKE_DIRECTORY ${home}/pocl ${home}/clade)
  file(CHMOD ${home}/clade PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(environment HOME=${home} XDG_CACHE_HOME=${home} POCL_CACHE_DIR=${home}/pocl CLADE_CACHE_DIR=${home}/clade)
  if(test_ALL_ICDS)
    list(APPEND environment RUSTICL_ENABLE=llvmpipe)
  else()
    list(APPEND environment OCL_ICD_VENDORS=${CLADE_POCL_ICD})
  endif()
  if(test_LAYER)
    list(APPEND environment OPENCL_LAYERS=$<TARGET_FILE:clade_layer>)
  endif()
  add_test(NAME ${name} COMMAND ${test_COMMAND})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment};${test_ENVIRONMENT}" TIMEOUT 600)
  if(test_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE LABELS serial)
  endif()
  if(test_LONG)
    set_tests_properties(${name} PROPERTIES LABELS long TIMEOUT 3600)
  endif()
  if(test_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT})
  endif()
endfunction()
