# A check that cannot fail is useless: plants an error in a copy of a kernel file and runs the same commands, which must
# detect it.
#   cmake -D OP_TEST=… -D ICD=… -D OP=name -D KERNELS=dir -D SOURCE=dir
#     -D "TEXT=original text" -D "PLANT=replacement" -P planted.cmake
#     -D "FINDS=expected message" [-D FILE=stem of the kernel file, if not the op's]
# and either -D LOG=file for Oclgrind, or -D DEVICE=spec if the op test detects it.
if(NOT FILE)
  set(FILE ${OP})
endif()
file(READ ${SOURCE}/cl_kernels/${FILE}.cl text)
string(FIND "${text}" "${TEXT}" at)
if(at LESS 0)
  message(FATAL_ERROR "cl_kernels/${FILE}.cl has no \"${TEXT}\" to plant an error in: choose another place")
endif()
string(REPLACE "${TEXT}" "${PLANT}" text "${text}")
file(MAKE_DIRECTORY ${KERNELS})
file(WRITE ${KERNELS}/${FILE}.cl "${text}")
if(NOT DEVICE)
  include(${CMAKE_CURRENT_LIST_DIR}/oclgrind.cmake)
else()
  execute_process(COMMAND ${CMAKE_COMMAND} -E env CLADE_KERNEL_DIR=${KERNELS}
    ${OP_TEST} --op ${OP} --device ${DEVICE} --cases 8 --dtype f32 RESULT_VARIABLE result ERROR_VARIABLE error OUTPUT_QUIET)
  string(FIND "${error}" "${FINDS}" found)
  if(result EQUAL 0 OR found LESS 0)
    message(FATAL_ERROR "the op test did not find the planted error: expected \"${FINDS}\": ${result}\n${error}")
  endif()
endif()
