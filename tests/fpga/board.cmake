# cmake -D BOARD=… -D KIND=ice40|ecp5 -D ROWS=… -D COLS=… -D OUT=… -D CXX=… -D CC=… -D VERILATOR=… -D INCLUDE=…
#       -D "CELLS=a;b" -D RUNTIME=… -D CLADE=… [-D READ_BACK=ON] -P board.cmake
# Routes the array for a board, simulates the result at its pins, and compares with C.
cmake_minimum_required(VERSION 3.21)
set(root ${CMAKE_CURRENT_LIST_DIR}/../..)
macro(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endmacro()

file(GLOB rtl ${root}/fpga/rtl/*.sv)
step(${VERILATOR} --lint-only -Wall --top-module ${BOARD} ${rtl} ${root}/fpga/boards/clade_serial.sv
  ${root}/fpga/boards/${BOARD}.sv)
step(${CMAKE_COMMAND} -D BOARD=${BOARD} -D OUT=${OUT} -D CLADE=${CLADE} -P ${root}/fpga/boards/route.cmake)
set(top ${BOARD})
set(verilog ${OUT}/${BOARD}.v)
if(READ_BACK)
  step(${CMAKE_COMMAND} -D BOARD=${BOARD} -D OUT=${OUT} -P ${root}/fpga/boards/read_back.cmake)
  set(top chip)
  set(verilog ${OUT}/${BOARD}_back.v)
endif()
# generated code, so no warnings
execute_process(COMMAND ${CMAKE_COMMAND} -D VERILATOR=${VERILATOR} -D OUT=${OUT}/model -D TOP=${top}
    "-DSOURCES=${verilog};${CELLS}"
    "-DFLAGS=-Wno-lint;-Wno-style;-Wno-TIMESCALEMOD;-Wno-INITIALDLY;-DNO_ICE40_DEFAULT_ASSIGNMENTS;-DICE40_U;-DNO_INCLUDES"
    -P ${root}/fpga/sim/verilate.cmake COMMAND_ERROR_IS_FATAL ANY)
step(${CC} -std=c11 -c ${root}/fpga/model/array.c -o ${OUT}/array.o)
step(${CXX} -O0 -w -DBOARD_ROWS=${ROWS} -DBOARD_COLS=${COLS} -DBOARD_LOG_DEPTH=8 -I${OUT}/model -I${root}/fpga
  -I${INCLUDE} -I${INCLUDE}/vltstd ${root}/tests/fpga/board_test.cpp ${OUT}/model/all.cpp ${OUT}/array.o ${RUNTIME}
  -pthread -o ${OUT}/board_test)
step(${OUT}/board_test)

# The simulation has validated the kernel: the bundle records that, with the reports' figures and their sources.
file(READ ${OUT}/manifest.json manifest)
string(REPLACE "\"evidence\": \"none\"" "\"evidence\": \"simulated\"" manifest "${manifest}")
file(WRITE ${OUT}/simulated.json "${manifest}")
step(${CLADE} pack build --manifest ${OUT}/simulated.json --binary ${OUT}/${BOARD}.bin --output ${OUT}/${BOARD}.bundle)
execute_process(COMMAND ${CLADE} pack inspect ${OUT}/${BOARD}.bundle OUTPUT_VARIABLE shown COMMAND_ERROR_IS_FATAL ANY)
file(READ ${OUT}/report.json report)
string(REGEX MATCH "\"value\": ([0-9.]+), \"source\": \"routed\", \"from\": \"([a-z]+)\"" found "${report}")
set(from ${CMAKE_MATCH_2})
string(REGEX REPLACE "\\.?0+$" "" mhz ${CMAKE_MATCH_1}) # the report has two decimals
set(fmax "${mhz} \\(routed, ${from}, seed 1\\)")
string(JSON cells GET "${report}" lc)
foreach(line "fmax_mhz +${fmax}" "lut +${cells} \\(routed, nextpnr\\)" "bandwidth_gbs .*\\(estimate"
        "ROWS=${ROWS}" "COLS=${COLS}" "SEED=1" "target +${KIND}" "evidence: simulated")
  if(NOT shown MATCHES "${line}")
    message(FATAL_ERROR "clade pack inspect does not tell \"${line}\":\n${shown}")
  endif()
endforeach()
