# Benchmarks.cmake: every benchmarks/*.c is a program, linked with benchmarks/harness.c.

file(GLOB benchmarks CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/*.c)
set(harness ${PROJECT_SOURCE_DIR}/benchmarks/harness.c)
if(harness IN_LIST benchmarks)
  add_library(benchmark_harness STATIC ${harness})
  target_link_libraries(benchmark_harness PRIVATE troupe::troupe)
  list(REMOVE_ITEM benchmarks ${harness})
endif()
foreach(source IN LISTS benchmarks)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/benchmarks)
  target_link_libraries(${name} PRIVATE troupe::troupe PkgConfig::zmq m)
  if(TARGET benchmark_harness)
    target_link_libraries(${name} PRIVATE benchmark_harness)
  endif()
endforeach()
