# The two blocks of C in README: the first is EXAMPLE as it stands, of at most 60 lines; the second, of at most 30, is
# written to OUT.
file(READ ${README} rest)

macro(take_block most out) # from `rest`, which begins behind it afterwards
  string(FIND "${rest}" "```c\n" at)
  if(at LESS 0)
    message(FATAL_ERROR "${README} holds too few blocks of C")
  endif()
  math(EXPR at "${at} + 5")
  string(SUBSTRING "${rest}" ${at} -1 rest)
  string(FIND "${rest}" "```" end)
  string(SUBSTRING "${rest}" 0 ${end} ${out})
  string(SUBSTRING "${rest}" ${end} -1 rest)
  string(REGEX REPLACE "[^\n]" "" lines "${${out}}")
  string(LENGTH "${lines}" lines)
  if(lines GREATER ${most})
    message(FATAL_ERROR "a program in ${README} has ${lines} lines, more than ${most}")
  endif()
endmacro()

take_block(60 program)
file(READ ${EXAMPLE} example)
if(NOT program STREQUAL example)
  message(FATAL_ERROR "${README} shows another program than ${EXAMPLE}")
endif()
take_block(30 program)
file(WRITE ${OUT} "${program}")
