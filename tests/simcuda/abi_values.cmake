# Lists every enumerator and number-like macro of the project's own cuda.h as ABI_VALUE(NAME), so that none is left out of
# the comparison: cmake -D header=... -D output=... -P abi_values.cmake
file(STRINGS ${header} lines)
set(list "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^(    |#define )(CU[A-Za-z_0-9]+)( = | +[(0-9])" matched "${line}")
  if(matched)
    string(APPEND list "ABI_VALUE(${CMAKE_MATCH_2})\n")
  endif()
endforeach()
file(WRITE ${output} "${list}")
