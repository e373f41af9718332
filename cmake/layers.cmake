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
    set_property(TARGET gm_${name} PROPERTY INTERPROCEDURAL_OPTIMIZATION_RELWITHDEBINFO ON)
  endif()
endfunction()

# gm_link_layers(TARGET layer...): links the objects of the named layers into TARGET.
function(gm_link_layers target)
  foreach(layer IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE gm_${layer})
  endforeach()
endfunction()
