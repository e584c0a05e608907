# Server.cmake: the programs of the train server: `troupe-server`, of all C files in server/, which
# sees all layers and is linked with the library's inside, and `troupe-launch`, of those in launch/,
# which is C's library alone. Within another project they are built where they are installed or asked for.

troupe_view(server ${layers}) # For its own sources, and for what tests see.
find_package(PkgConfig REQUIRED)
include(CheckCSourceCompiles)
pkg_check_modules(troupe_sqlite QUIET IMPORTED_TARGET GLOBAL sqlite3>=3.40)
if(NOT troupe_sqlite_FOUND)
  message(STATUS "Train server: left out, for lack of libsqlite3-dev: `troupe server` says so")
  return()
endif()
message(STATUS "Train server: its books are kept by SQLite ${troupe_sqlite_VERSION}")

file(GLOB server_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/server/*.c)
set(server_main ${PROJECT_SOURCE_DIR}/server/main.c)
list(REMOVE_ITEM server_sources ${server_main})

# The files of the dashboard, as an array each.
set(page_source ${PROJECT_BINARY_DIR}/server/page_files.c)
troupe_embed(${PROJECT_SOURCE_DIR}/server/page ${page_source} server/web_page.h web_page)

add_library(troupe_server_parts OBJECT ${server_sources} ${page_source})
target_link_libraries(troupe_server_parts PUBLIC view_server ${TROUPE_NEEDS} PkgConfig::troupe_sqlite)
target_compile_options(troupe_server_parts PRIVATE ${TROUPE_FRAMES})
if(troupe_microhttpd_FOUND)
  target_compile_definitions(troupe_server_parts PUBLIC TROUPE_HTTP)
  target_include_directories(troupe_server_parts SYSTEM PUBLIC ${troupe_microhttpd_INCLUDEDIR})
endif()

add_executable(troupe_server ${server_main})
set_target_properties(troupe_server PROPERTIES OUTPUT_NAME troupe-server)
target_link_libraries(troupe_server PRIVATE troupe_server_parts troupe::inner)

file(GLOB launch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/launch/*.c)
add_executable(troupe_launch ${launch_sources})
set_target_properties(troupe_launch PROPERTIES OUTPUT_NAME troupe-launch)
target_include_directories(troupe_launch PRIVATE ${PROJECT_SOURCE_DIR}/include ${TROUPE_GENERATED})
# Without a loader it starts in half the time.
if(NOT TROUPE_SANITIZE)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-pie)
  check_c_source_compiles("int main(void) { return 0; }" TROUPE_STATIC_PROGRAMS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(TROUPE_STATIC_PROGRAMS)
    set_property(TARGET troupe_launch PROPERTY POSITION_INDEPENDENT_CODE) # Its -pie undoes it.
    target_compile_options(troupe_launch PRIVATE -fPIE)
    target_link_options(troupe_launch PRIVATE -static-pie)
  endif()
endif()

# The launcher has none: C's library ends a static program that names folders of libraries.
set_target_properties(troupe_server PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set_target_properties(troupe_launch PROPERTIES SKIP_BUILD_RPATH ON)
foreach(program troupe_server troupe_launch)
  set_target_properties(${program} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
  if(NOT PROJECT_IS_TOP_LEVEL AND NOT TROUPE_INSTALL)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endforeach()
