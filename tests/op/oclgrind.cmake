# Runs small cases of one op under Oclgrind, whose exit status is meaningless: its log must be empty.
#   cmake -D OP_TEST=program -D ICD=liboclgrind-rt-icd.so -D OP=name -D LOG=file [-D KERNELS=dir] [-D FINDS=text]
#         [-D RAN=file] [-D "HOW=options of the op test"] -P …
# With FINDS, the kernels in KERNELS have a planted defect, and the log must contain that text. RAN: file for the names
# of the executed kernels (oclgrind_kernels.py).
if(NOT EXISTS ${ICD}) # some distributions lack the package
  message(NOTICE "Oclgrind is not installed: ${ICD} is missing (package oclgrind)")
  return()
endif()
file(REMOVE ${LOG})
set(how ${HOW})
if(RAN)
  file(REMOVE ${RAN})
  list(APPEND how --kernels ${RAN})
endif()
# Detection of uninitialized values is off: version 21.10 treats stores of all work-groups but the first as
# uninitialized. Values that were never written show as NaN, which guarded runs fill memory with.
set(environment OCL_ICD_VENDORS=${ICD} OCLGRIND_LOG=${LOG} OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_MAX_ERRORS=100000 OCLGRIND_NUM_THREADS=1
  OCLGRIND_LOCAL_MEM_SIZE=262144 # the default of 32 KiB is too small for tiles of four warps
  OCLGRIND_BUILD_OPTIONS=-cl-opt-disable) # its race detector does not know all instructions of optimized code
if(KERNELS)
  list(APPEND environment CLADE_KERNEL_DIR=${KERNELS})
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E env ${environment} ${OP_TEST} --op ${OP} --device oclgrind --small ${how}
  RESULT_VARIABLE result ERROR_VARIABLE said ECHO_ERROR_VARIABLE)
set(report "")
if(EXISTS ${LOG})
  file(READ ${LOG} report)
endif()
string(SUBSTRING "${report}" 0 4000 beginning)
if(FINDS)
  string(FIND "${report}" "${FINDS}" found)
  if(found LESS 0)
    message(FATAL_ERROR "Oclgrind did not find the planted defect: expected \"${FINDS}\" in its log:\n${beginning}")
  endif()
elseif(said MATCHES "OCLGRIND FATAL ERROR[^\n]*\n[^\n]*") # a kernel that it cannot run is not checked
  message(FATAL_ERROR "Oclgrind: ${CMAKE_MATCH_0}")
elseif(NOT report STREQUAL "")
  message(FATAL_ERROR "Oclgrind reports:\n${beginning}")
elseif(NOT result EQUAL 0)
  message(FATAL_ERROR "${OP}: the op test failed: ${result}")
endif()
