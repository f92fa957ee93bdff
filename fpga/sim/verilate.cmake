# cmake -D VERILATOR=… -D OUT=folder -D TOP=module -D "SOURCES=a;b" [-D "FLAGS=…;…"] -P verilate.cmake
# Makes C++ of Verilog in OUT, warnings being errors, and OUT/all.cpp, which includes all of it: Verilator decides how
# many files there are.
file(REMOVE_RECURSE ${OUT})
execute_process(COMMAND ${VERILATOR} --cc -Wall -O3 --x-assign unique --x-initial unique --prefix Varray --top-module ${TOP}
    --Mdir ${OUT} ${FLAGS} ${SOURCES} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB made RELATIVE ${OUT} ${OUT}/*.cpp)
list(SORT made)
list(TRANSFORM made REPLACE "(.+)" "#include \"\\1\"\n")
list(JOIN made "" text)
file(WRITE ${OUT}/all.cpp "${text}")
