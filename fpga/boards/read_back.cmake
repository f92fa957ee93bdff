# cmake -D BOARD=hx8k -D OUT=folder -P fpga/boards/read_back.cmake
# Converts the bitstream OUT/BOARD.bin to Verilog: OUT/BOARD_back.v, with the module `chip`.
# Not for up5k, whose hard multipliers would be lost.
cmake_minimum_required(VERSION 3.21)
set(back ${OUT}/${BOARD}_back)
execute_process(COMMAND iceunpack ${OUT}/${BOARD}.bin ${back}.asc COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND icebox_vlog -s -p ${CMAKE_CURRENT_LIST_DIR}/${BOARD}.pcf ${back}.asc OUTPUT_FILE ${back}.raw.v
  COMMAND_ERROR_IS_FATAL ANY)
# yosys rewrites it in a form that Verilator accepts: one driver per wire, and consistent initial values.
execute_process(COMMAND yosys -q -p "read_verilog -lib +/ice40/cells_sim.v; read_verilog ${back}.raw.v
  hierarchy -top chip; proc; opt_clean; write_verilog -noattr ${back}.v" COMMAND_ERROR_IS_FATAL ANY)
