# gm_layer(NAME SOURCES a.c b.c [USES layer...])
# One layer of the core: an object library gm_NAME whose sources see their own folder, include/ and the folders of
# the layers they use, nothing else. An upward #include therefore does not compile.
function(gm_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_library(gm_${name} OBJECT ${arg_SOURCES})
  target_include_directories(gm_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  foreach(used IN LISTS arg_USES)
    target_link_libraries(gm_${name} PUBLIC gm_${used})
    target_include_directories(gm_${name} PUBLIC $<TARGET_PROPERTY:gm_${used},INTERFACE_INCLUDE_DIRECTORIES>)
  endforeach()
  # A call of the allocator is some 50 ns over six small files: inlining across them saves a tenth of it. The preload
  # library's entry points are written in assembly, which link-time optimisation would lose.
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT name STREQUAL "preload" AND NOT GMLAKE_SANITIZE)
    target_compile_options(gm_${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-flto=auto;-ffat-lto-objects>)
  endif()
endfunction()

# gm_link_layers(TARGET [WHOLE] layer...): links the objects of the named layers into TARGET. WHOLE: optimise across
# them; for what is installed or measured. The many programs of the tests take the plain code, which links at once.
function(gm_link_layers target)
  cmake_parse_arguments(arg "WHOLE" "" "" ${ARGN})
  foreach(layer IN LISTS arg_UNPARSED_ARGUMENTS)
    target_link_libraries(${target} PRIVATE gm_${layer})
  endforeach()
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT GMLAKE_SANITIZE)
    if(arg_WHOLE)
      target_link_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-flto=auto>)
    else()
      target_link_options(${target} PRIVATE -fno-lto -fno-use-linker-plugin)
    endif()
  endif()
endfunction()
