# The array for FPGAs: bitstreams for boards and, if Verilator is installed, its simulation. Not part of the library.
foreach(board up5k hx8k ecp5)
  add_custom_target(bitstream_${board} COMMAND ${CMAKE_COMMAND} -D BOARD=${board}
    -D OUT=${PROJECT_BINARY_DIR}/fpga/${board} -D CLADE=$<$<TARGET_EXISTS:clade_cli>:$<TARGET_FILE:clade_cli>> -P ${PROJECT_SOURCE_DIR}/fpga/boards/route.cmake USES_TERMINAL VERBATIM)
endforeach()

find_program(VERILATOR verilator)
if(NOT VERILATOR)
  return()
endif()
enable_language(CXX)
get_filename_component(root ${VERILATOR} DIRECTORY)
find_path(VERILATOR_INCLUDE verilated.h HINTS ${root}/../share/verilator/include REQUIRED)
set(verilator_includes ${VERILATOR_INCLUDE} ${VERILATOR_INCLUDE}/vltstd)

# Shared by all simulations. Threads are not used, but Verilator's sources require them.
add_library(verilated STATIC ${VERILATOR_INCLUDE}/verilated.cpp ${VERILATOR_INCLUDE}/verilated_threads.cpp)
target_include_directories(verilated SYSTEM PUBLIC ${verilator_includes})
target_link_libraries(verilated PUBLIC Threads::Threads)
target_compile_options(verilated PRIVATE -O1 -w)
set_target_properties(verilated PROPERTIES POSITION_INDEPENDENT_CODE ON) # may be linked into a layer

# fpga_verilate(FOLDER TOP module SOURCES … [FLAGS …] [DEPENDS …]): FOLDER/all.cpp
function(fpga_verilate folder)
  cmake_parse_arguments(PARSE_ARGV 1 it "" "TOP" "SOURCES;FLAGS;DEPENDS")
  add_custom_command(OUTPUT ${folder}/all.cpp
    COMMAND ${CMAKE_COMMAND} -D VERILATOR=${VERILATOR} -D OUT=${folder} -D TOP=${it_TOP} "-DSOURCES=${it_SOURCES}"
      "-DFLAGS=${it_FLAGS}" -P ${PROJECT_SOURCE_DIR}/fpga/sim/verilate.cmake
    DEPENDS ${it_SOURCES} ${it_DEPENDS} ${PROJECT_SOURCE_DIR}/fpga/sim/verilate.cmake VERBATIM)
endfunction()

# fpga_simulation(NAME ROWS COLS LOG_DEPTH SOURCES … [FLAGS …]): a library of this name with the interface sim/sim.h
function(fpga_simulation name rows cols log_depth)
  cmake_parse_arguments(PARSE_ARGV 4 it "" "" "SOURCES;FLAGS")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  fpga_verilate(${folder} TOP clade_array SOURCES ${it_SOURCES}
    FLAGS -GROWS=${rows} -GCOLS=${cols} -GLOG_DEPTH=${log_depth} ${it_FLAGS})
  add_library(${name} STATIC ${PROJECT_SOURCE_DIR}/fpga/sim/sim.cpp ${folder}/all.cpp)
  target_include_directories(${name} PRIVATE ${folder})
  target_compile_definitions(${name} PRIVATE SIM_ROWS=${rows} SIM_COLS=${cols} SIM_LOG_DEPTH=${log_depth})
  set_source_files_properties(${folder}/all.cpp PROPERTIES COMPILE_OPTIONS -w)
  target_compile_options(${name} PRIVATE -O1)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PUBLIC fpga_model verilated)
endfunction()

file(GLOB FPGA_RTL CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fpga/rtl/*.sv)

# fpga_layer(NAME SIMULATION): the emulated accelerator, with array_i8 computed by that simulation
function(fpga_layer name simulation)
  set(sources contexts.c info.c layer.c rtl_array.c rtl_memory.c rtl_queue.c)
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/fpga/emulated/)
  add_library(${name} MODULE ${sources})
  target_link_libraries(${name} PRIVATE ${simulation} clade_flags Threads::Threads m)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/fpga)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
