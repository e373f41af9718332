# What `cmake --install` puts where: the libraries, with headers, pkg-config file and CMake package. Programs and manual
# pages install themselves where they are built.
include(CMakePackageConfigHelpers)

target_include_directories(gmlake INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS gmlake EXPORT gmlake LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS gmlake_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS simcuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simcuda NAMELINK_SKIP)
install(DIRECTORY include/gmlake DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.def)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The prefix, seen from the pkg-config file: an installed tree may be moved as a whole.
file(RELATIVE_PATH back_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p/.)
configure_file(cmake/gmlake.pc.in ${CMAKE_BINARY_DIR}/gmlake.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gmlake.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# find_package(gmlake) gives the target gmlake::gmlake.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gmlake)
install(EXPORT gmlake NAMESPACE gmlake:: FILE gmlake-config.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gmlake-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gmlake-config-version.cmake DESTINATION ${package_dir})
