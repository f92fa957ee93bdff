# cmake -D BOARD=up5k|hx8k -D OUT=folder [-D SEED=1] -P fpga/boards/route.cmake
# Synthesises, places and routes the array for a board; makes OUT/BOARD.bin, OUT/BOARD.v (the netlist after synthesis),
# OUT/BOARD.asc and OUT/report.json. Fails where the timing is not met. Same seed and tools, same bits.
cmake_minimum_required(VERSION 3.21)
set(up5k_synth -dsp)
set(up5k_route --up5k --package sg48)
set(up5k_mhz 35)
set(hx8k_synth "")
set(hx8k_route --hx8k --package ct256)
set(hx8k_mhz 70)
if(NOT DEFINED ${BOARD}_mhz OR NOT OUT)
  message(FATAL_ERROR "BOARD=${BOARD}, OUT=${OUT}; expected up5k or hx8k, and a folder")
endif()
if(NOT SEED)
  set(SEED 1)
endif()
set(fpga ${CMAKE_CURRENT_LIST_DIR}/..)
file(MAKE_DIRECTORY ${OUT})
set(made ${OUT}/${BOARD})

function(tool) # runs it; what it prints is shown when it fails
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(failed)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "${line}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(GLOB sources ${fpga}/rtl/*.sv)
list(APPEND sources ${fpga}/boards/clade_serial.sv ${fpga}/boards/${BOARD}.sv)
list(JOIN sources " " sources)
list(JOIN ${BOARD}_synth " " synth)
tool(yosys -q -p "read_verilog -sv ${sources}
  synth_ice40 -top ${BOARD} ${synth} -json ${made}.json
  write_verilog -noattr ${made}.v")
tool(nextpnr-ice40 -q ${${BOARD}_route} --pcf ${fpga}/boards/${BOARD}.pcf --json ${made}.json --asc ${made}.asc
  --report ${made}.report.json --freq ${${BOARD}_mhz} --seed ${SEED})
tool(icepack ${made}.asc ${made}.bin)
tool(icetime -d ${BOARD} -mt ${made}.asc)

# Two tools judge the timing, and neither knows all delays; the lower figure counts.
if(NOT output MATCHES "Total path delay: [0-9.]+ ns \\(([0-9.]+) MHz\\)")
  message(FATAL_ERROR "icetime names no frequency:\n${output}")
endif()
set(icetime ${CMAKE_MATCH_1})
file(READ ${made}.report.json routed)
string(JSON clock MEMBER "${routed}" fmax 0)
string(JSON nextpnr GET "${routed}" fmax ${clock} achieved)
string(REGEX REPLACE "(\\.[0-9][0-9]?).*" "\\1" nextpnr ${nextpnr})
set(mhz ${nextpnr})
set(from nextpnr)
if(icetime LESS nextpnr)
  set(mhz ${icetime})
  set(from icetime)
endif()
set(used "")
foreach(cell LC DSP RAM)
  string(JSON count ERROR_VARIABLE none GET "${routed}" utilization ICESTORM_${cell} used)
  if(NOT none)
    string(TOLOWER "  \"${cell}\": ${count},\n" line)
    string(APPEND used "${line}")
  endif()
endforeach()
file(WRITE ${OUT}/report.json "{
  \"board\": \"${BOARD}\",
  \"seed\": ${SEED},
${used}  \"asked_mhz\": ${${BOARD}_mhz},
  \"nextpnr_mhz\": ${nextpnr},
  \"icetime_mhz\": ${icetime},
  \"fmax_mhz\": {\"value\": ${mhz}, \"source\": \"routed\", \"from\": \"${from}\"}
}
")
message(STATUS "${BOARD}: ${mhz} MHz (${from})")
if(mhz LESS ${BOARD}_mhz)
  message(FATAL_ERROR "${BOARD}: ${mhz} MHz, ${${BOARD}_mhz} were asked for")
endif()
