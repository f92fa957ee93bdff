# Writes the source of offline kernels as a single file, with #include directives of its own directory expanded:
#   cmake -D IN=fpga/clade.cl -D OUT=file.cl -P flatten.cmake
get_filename_component(folder ${IN} DIRECTORY)
file(READ ${IN} text)
string(REGEX MATCHALL "#include \"[^\"\n]+\"" includes "${text}")
list(REMOVE_DUPLICATES includes)
foreach(line IN LISTS includes)
  string(REGEX REPLACE "#include \"(.+)\"" "\\1" name "${line}")
  file(READ ${folder}/${name} part)
  string(REPLACE "${line}" "${part}" text "${text}")
endforeach()
file(WRITE ${OUT} "${text}")
