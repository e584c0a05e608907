# Install.cmake: headers, the shared and the static library, and how pkg-config and CMake find them.
# Everything that is installed finds its prefix from its own place, so the tree may be moved.

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES ${TROUPE_GENERATED}/troupe/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe)
install(TARGETS troupe troupe_static LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                                     ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS troupe_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET troupe_server)
  install(TARGETS troupe_server troupe_launch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # systemd wants the whole path of what it starts, which is known when it is installed.
  install(CODE "set(prefix \"\${CMAKE_INSTALL_PREFIX}\")
    set(CMAKE_INSTALL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
    configure_file(\"${CMAKE_CURRENT_LIST_DIR}/troupe.service.in\"
                   \"${PROJECT_BINARY_DIR}/troupe.service\" @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/troupe.service DESTINATION lib/systemd/user)
endif()

install(FILES ${PROJECT_SOURCE_DIR}/tools/completion.bash RENAME troupe
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)

# What the static library needs, by name. libzmq is loaded at run time, where it is asked for.
set(needed ${troupe_msgpack_LIBRARIES} m)
list(TRANSFORM needed PREPEND "-l" OUTPUT_VARIABLE needed_flags)
list(JOIN needed_flags " " TROUPE_PC_NEEDS)
list(JOIN needed ";" TROUPE_CMAKE_NEEDS)

file(RELATIVE_PATH TROUPE_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(name troupe troupe-static)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# Manual pages: those of the headers are made of their comments, with the command.
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/troupe/*.h
     ${PROJECT_SOURCE_DIR}/include/troupe/detail/*.h)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man3/troupe.3 VERBATIM
  COMMAND sh ${PROJECT_SOURCE_DIR}/docs/man/headers.sh ${PROJECT_SOURCE_DIR}/include
          ${PROJECT_VERSION} ${PROJECT_BINARY_DIR}/man3
  DEPENDS ${public_headers} ${PROJECT_SOURCE_DIR}/docs/man/headers.sh
          ${PROJECT_SOURCE_DIR}/docs/man/header.awk)
add_custom_target(troupe_manual ALL DEPENDS ${PROJECT_BINARY_DIR}/man3/troupe.3)
add_dependencies(troupe_tool troupe_manual)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY ${PROJECT_BINARY_DIR}/man3/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 FILES_MATCHING PATTERN "*.3")

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/troupe-config.cmake.in troupe-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(troupe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/troupe-config.cmake
              ${PROJECT_BINARY_DIR}/troupe-config-version.cmake DESTINATION ${package_dir})
