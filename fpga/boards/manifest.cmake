# Part of route.cmake: writes the manifest of a routed bitstream (docs/fpga.md, The file), with the figures of the reports.
set(texts "")
foreach(source IN LISTS sources)
  file(READ ${source} text)
  string(APPEND texts "${text}")
endforeach()
string(SHA256 sha256 "${texts}")
file(READ ${fpga}/boards/${BOARD}.sv text)
foreach(size ROWS COLS LOG_DEPTH)
  string(REGEX MATCH "\\.${size}\\(([0-9]+)\\)" found "${text}")
  set(${size} ${CMAKE_MATCH_1})
endforeach()
file(SIZE ${OUT}/${BOARD}.bin bytes)
list(GET ${BOARD}_route 0 nextpnr_name)
execute_process(COMMAND ${nextpnr_name} --version OUTPUT_VARIABLE version ERROR_VARIABLE version)
string(REGEX MATCH "[0-9]+\\.[0-9][^) \n]*" version "${version}")

# Bandwidth of the wires: a bit per 8 clocks, and 8 bits before each beat; the narrower operand takes longer.
set(narrow ${ROWS})
if(COLS LESS ROWS)
  set(narrow ${COLS})
endif()
string(REGEX MATCH "^([0-9]+)\\.?([0-9]*)" found "${mhz}")
string(SUBSTRING "${CMAKE_MATCH_2}00" 0 2 fraction)
set(hundredths ${CMAKE_MATCH_1}${fraction})
math(EXPR bytes_per_second "${hundredths} * 10000 * ${narrow} / (8 * (8 + 8 * ${narrow}))")

set(figures lut dsp bram)
set(report "")
foreach(figure name IN ZIP_LISTS figures names)
  if(DEFINED count_${name})
    string(APPEND report ",
        \"${figure}\": {\"value\": ${count_${name}}, \"source\": \"routed\", \"from\": \"nextpnr\"}")
  endif()
endforeach()
set(kind ice40)
if(BOARD STREQUAL ecp5)
  set(kind ecp5)
endif()
file(WRITE ${OUT}/manifest.json "{
  \"format\": 1,
  \"interface\": 1,
  \"target\": {\"kind\": \"${kind}\", \"vendor\": \"Lattice\", \"device\": \"${${BOARD}_device}\"},
  \"tool\": {\"name\": \"${nextpnr_name}\", \"version\": \"${version}\", \"command\": \"cmake -D BOARD=${BOARD} -D SEED=${SEED} -P fpga/boards/route.cmake\"},
  \"source\": {\"sha256\": \"${sha256}\"},
  \"defines\": {\"ROWS\": \"${ROWS}\", \"COLS\": \"${COLS}\", \"LOG_DEPTH\": \"${LOG_DEPTH}\", \"SEED\": \"${SEED}\"},
  \"binary\": {\"format\": \"bitstream\", \"file\": \"${BOARD}.bin\", \"bytes\": ${bytes}},
  \"kernels\": [
    {
      \"name\": \"clade_array\",
      \"arguments\": [
        {\"type\": \"int8\", \"name\": \"a\", \"access\": \"read\"},
        {\"type\": \"int8\", \"name\": \"b\", \"access\": \"read\"},
        {\"type\": \"int32\", \"name\": \"out\", \"access\": \"write\"}
      ],
      \"work_group\": [1, 1, 1],
      \"compute_units\": 1,
      \"report\": {
        \"fmax_mhz\": {\"value\": ${mhz}, \"source\": \"routed\", \"from\": \"${from}, seed ${SEED}\"},
        \"bandwidth_gbs\": {\"value\": ${bytes_per_second}e-9, \"source\": \"estimate\", \"from\": \"clade_serial.sv at that clock\"}${report}
      },
      \"evidence\": \"none\"
    }
  ]
}
")
