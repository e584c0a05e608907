# Tools.cmake: the program `troupe`, of all C files in tools/. Within another project it is built where it is installed
# or asked for.

file(GLOB tools CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.c)
add_executable(troupe_tool ${tools})
set_target_properties(troupe_tool PROPERTIES OUTPUT_NAME troupe
                      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools
                      INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
if(NOT PROJECT_IS_TOP_LEVEL AND NOT TROUPE_INSTALL)
  set_target_properties(troupe_tool PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
target_link_libraries(troupe_tool PRIVATE troupe::troupe ${CMAKE_DL_LIBS})
