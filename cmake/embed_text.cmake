# Writes a C file with a text as a character array:
#   cmake -D IN=file -D OUT=file.c -D NAME=array -D HEADER=header.h -P embed_text.cmake
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" hex "${hex}")
file(WRITE ${OUT} "/* Made by cmake/embed_text.cmake. */\n#include \"${HEADER}\"\n\nconst char ${NAME}[] = {\n${hex}0};\n")
