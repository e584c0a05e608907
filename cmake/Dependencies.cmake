# Dependencies.cmake: what the library needs (required) and what some examples use (optional).

# Who adds this folder to a project of their own links these from there, and may have looked for the
# same libraries: hence targets that are seen everywhere, under names of ours.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED GLOBAL)
pkg_check_modules(troupe_zmq REQUIRED IMPORTED_TARGET GLOBAL libzmq>=4.3)
# Its private dependencies' folders, which nothing here includes, come in another form each time that
# CMake runs again: then everything would be compiled again.
set_target_properties(PkgConfig::troupe_zmq PROPERTIES INTERFACE_COMPILE_OPTIONS ""
                      INTERFACE_INCLUDE_DIRECTORIES "${troupe_zmq_INCLUDEDIR}")
pkg_check_modules(troupe_msgpack REQUIRED IMPORTED_TARGET GLOBAL msgpack)
# Its headers alone.
pkg_check_modules(troupe_xxhash REQUIRED IMPORTED_TARGET GLOBAL libxxhash>=0.8)
find_path(uthash_include uthash.h REQUIRED) # Headers alone: nothing of it is linked.
set(TROUPE_NEEDS PkgConfig::troupe_zmq PkgConfig::troupe_msgpack PkgConfig::troupe_xxhash
                 Threads::Threads m)

# Its headers alone: services speak HTTP where they are (serve/).
pkg_check_modules(troupe_microhttpd QUIET libmicrohttpd>=0.9.71)
if(troupe_microhttpd_FOUND)
  message(STATUS "HTTP: libmicrohttpd ${troupe_microhttpd_VERSION} is loaded by services that speak it")
else()
  message(STATUS "HTTP: left out, for lack of libmicrohttpd-dev: services refuse it (TROUPE_UNSUPPORTED)")
endif()

# For examples only. OpenBLAS's serial build by its full path: the threaded one, to which the
# alternatives system may point libopenblas.so.0, starts threads when it is loaded, and a program
# must not have threads before troupe_start has forked its keeper.
pkg_check_modules(zlib IMPORTED_TARGET zlib)
pkg_check_modules(xgboost QUIET IMPORTED_TARGET xgboost)
set(openblas_dir /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
set(openblas_headers /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
if(EXISTS ${openblas_dir}/libopenblas.so AND EXISTS ${openblas_headers}/cblas.h)
  add_library(openblas_serial INTERFACE)
  target_link_libraries(openblas_serial INTERFACE ${openblas_dir}/libopenblas.so)
  target_link_options(openblas_serial INTERFACE -Wl,-rpath,${openblas_dir})
  target_include_directories(openblas_serial SYSTEM INTERFACE ${openblas_headers})
endif()
