# cmake -D VERILATOR=… -D OUT=folder -D TOP=module -D "SOURCES=a;b" [-D "FLAGS=…;…"] -P verilate.cmake
# Translates Verilog to C++ in OUT, with warnings as errors, and writes OUT/all.cpp, which includes all generated files,
# since their number is up to Verilator.
file(REMOVE_RECURSE ${OUT})
execute_process(COMMAND ${VERILATOR} --cc -Wall -O3 --x-assign unique --x-initial unique --prefix Varray --top-module ${TOP}
    --Mdir ${OUT} ${FLAGS} ${SOURCES} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB made RELATIVE ${OUT} ${OUT}/*.cpp)
list(SORT made)
list(TRANSFORM made REPLACE "(.+)" "#include \"\\1\"\n")
list(JOIN made "" text)
file(WRITE ${OUT}/all.cpp "${text}")
