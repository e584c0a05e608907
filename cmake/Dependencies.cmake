# Dependencies.cmake: what the library needs (required) and what more it can use (optional).

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq>=4.3)
pkg_check_modules(msgpack REQUIRED IMPORTED_TARGET msgpack)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash>=0.8) # Its headers alone.
find_path(uthash_include uthash.h REQUIRED) # Headers alone: nothing of it is linked.
set(TROUPE_NEEDS PkgConfig::zmq PkgConfig::msgpack PkgConfig::xxhash Threads::Threads m)

# For examples only. OpenBLAS's serial build by its full path: the threaded one, to which the
# alternatives system may point libopenblas.so.0, starts threads when it is loaded, and a program
# must not have threads before troupe_start has forked its keeper.
pkg_check_modules(zlib IMPORTED_TARGET zlib)
set(openblas_dir /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
set(openblas_headers /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
if(EXISTS ${openblas_dir}/libopenblas.so AND EXISTS ${openblas_headers}/cblas.h)
  add_library(openblas_serial INTERFACE)
  target_link_libraries(openblas_serial INTERFACE ${openblas_dir}/libopenblas.so)
  target_link_options(openblas_serial INTERFACE -Wl,-rpath,${openblas_dir})
  target_include_directories(openblas_serial SYSTEM INTERFACE ${openblas_headers})
endif()

# GPUs: looked for and reported; a build without them is complete and passes the same tests.
set(TROUPE_WITH_CUDA 0)
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  find_path(nccl_include nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(nccl_library nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  set(nccl_note "without NCCL")
  if(nccl_include AND nccl_library)
    set(nccl_note "with NCCL")
  endif()
  set(TROUPE_WITH_CUDA 1)
  message(STATUS "GPU support: on (CUDA toolkit ${CUDAToolkit_VERSION}, ${nccl_note})")
else()
  message(STATUS "GPU support: off (no CUDA toolkit found)")
endif()
