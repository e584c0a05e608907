# Examples.cmake: every examples/*.c is a program; examples/digits/*.c together are one.

set(TROUPE_EXAMPLES_DIR ${PROJECT_BINARY_DIR}/examples)
file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(source IN LISTS examples)
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR})
  target_link_libraries(example_${name} PRIVATE troupe::troupe m)
endforeach()

file(GLOB digits CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/digits/*.c)
if(digits AND TARGET openblas_serial AND TARGET PkgConfig::zlib)
  add_executable(example_digits ${digits})
  set_target_properties(example_digits PROPERTIES OUTPUT_NAME digits
                        RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR})
  target_link_libraries(example_digits PRIVATE troupe::troupe openblas_serial PkgConfig::zlib m)
elseif(digits)
  message(STATUS "Example digits: not built (it needs zlib and the serial build of OpenBLAS)")
endif()
