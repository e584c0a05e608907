# Benchmarks.cmake: every benchmarks/*.c is a program, linked with benchmarks/harness.c; so is every
# peer in benchmarks/compare/*.c, which does without the library and lands in compare/ beside them.

set(harness ${PROJECT_SOURCE_DIR}/benchmarks/harness.c)
add_library(benchmark_harness STATIC ${harness})
target_include_directories(benchmark_harness PUBLIC ${PROJECT_SOURCE_DIR}/benchmarks)
target_link_libraries(benchmark_harness PUBLIC m)

file(GLOB benchmarks CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/*.c)
list(REMOVE_ITEM benchmarks ${harness})
foreach(source IN LISTS benchmarks)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/benchmarks)
  target_link_libraries(${name} PRIVATE benchmark_harness troupe::troupe)
endforeach()

# Peers are compiled in their best form: -O3 makes vectors of their loops.
file(GLOB peers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/compare/*.c)
foreach(source IN LISTS peers)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/benchmarks/compare)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  target_link_libraries(${name} PRIVATE benchmark_harness PkgConfig::zmq)
endforeach()
