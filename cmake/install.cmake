# Installs headers, both libraries, clade-probe, the CMake package, clade.pc and the documentation.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/clade DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h PATTERN *.hpp)
file(GLOB pages CONFIGURE_DEPENDS docs/*.md)
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/clade)
install(DIRECTORY docs/api DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/clade)
install(TARGETS clade clade_static EXPORT clade_targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET clade_mpi)
  install(TARGETS clade_mpi EXPORT clade_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS clade_probe RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/clade)
install(EXPORT clade_targets NAMESPACE clade:: FILE cladeTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clade)

# The command writes its manual pages. A cross-compiled one needs an emulator for that, and sanitizers would slow it down.
if(TARGET clade_cli AND NOT CLADE_SANITIZE AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  set(man ${PROJECT_BINARY_DIR}/man)
  add_custom_command(OUTPUT ${man}/written
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${man}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${man}/man1
    COMMAND clade_cli __man ${man}/man1
    COMMAND ${CMAKE_COMMAND} -E touch ${man}/written
    DEPENDS clade_cli VERBATIM)
  add_custom_target(clade_man ALL DEPENDS ${man}/written)
  install(DIRECTORY ${man}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()

set(CLADE_INSTALL_KERNELS ${CMAKE_INSTALL_LIBDIR}/clade/kernels.cl)
configure_package_config_file(cmake/cladeConfig.cmake.in ${PROJECT_BINARY_DIR}/cladeConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clade PATH_VARS CLADE_INSTALL_KERNELS)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cladeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cladeConfig.cmake ${PROJECT_BINARY_DIR}/cladeConfigVersion.cmake
  cmake/cladeBitstream.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clade)

# clade.pc derives the prefix from its own location, so that an installation can be moved. Absolute paths are kept.
set(CLADE_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(CLADE_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(CLADE_PC_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(CLADE_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
list(TRANSFORM CLADE_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE CLADE_PC_LIBRARIES)
list(JOIN CLADE_PC_LIBRARIES " " CLADE_PC_LIBRARIES)
configure_file(cmake/clade.pc.in ${PROJECT_BINARY_DIR}/clade.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/clade.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
