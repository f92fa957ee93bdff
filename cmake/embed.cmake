# Writes a C file with the kernel files as byte arrays:
#   cmake -D OUT=file.c -D KERNELS=a.cl;b.cl -P embed.cmake
set(arrays "")
set(rows "")
foreach(file IN LISTS KERNELS)
  get_filename_component(stem ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" hex "${hex}")
  string(APPEND arrays "static const unsigned char ${stem}_cl[] = {\n${hex}0};\n")
  string(APPEND rows "  {\"${stem}\", (const char *)${stem}_cl, ${bytes}},\n")
endforeach()
file(WRITE ${OUT}.new
  "/* Made by cmake/embed.cmake from cl_kernels. */\n#include \"program/store.h\"\n\n${arrays}\n"
  "const clade__embedded clade__embedded_kernels[] = {\n${rows}  {NULL, NULL, 0},\n};\n")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
