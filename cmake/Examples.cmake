# Examples.cmake: every examples/*.c and examples/tutorial/*.c is a program; examples/digits/*.c
# together are one.

set(TROUPE_EXAMPLES_DIR ${PROJECT_BINARY_DIR}/examples)
file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(source IN LISTS examples)
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR})
  target_link_libraries(example_${name} PRIVATE troupe::troupe m)
endforeach()

file(GLOB tutorial CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/tutorial/*.c)
foreach(source IN LISTS tutorial)
  get_filename_component(name ${source} NAME_WE)
  add_executable(tutorial_${name} ${source})
  set_target_properties(tutorial_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR}/tutorial)
  target_link_libraries(tutorial_${name} PRIVATE troupe::troupe)
endforeach()

# All of digits but its main is a library too, which the tests of the example link.
file(GLOB digits CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/digits/*.c)
list(FILTER digits EXCLUDE REGEX "/main\\.c$")
if(digits AND TARGET openblas_serial AND TARGET PkgConfig::zlib)
  add_library(digits STATIC ${digits})
  target_include_directories(digits PUBLIC ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(digits PUBLIC troupe::troupe openblas_serial PkgConfig::zlib m)
  add_executable(example_digits ${PROJECT_SOURCE_DIR}/examples/digits/main.c)
  set_target_properties(example_digits PROPERTIES OUTPUT_NAME digits
                        RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR})
  target_link_libraries(example_digits PRIVATE digits)
elseif(digits)
  message(STATUS "Example digits: not built (it needs zlib and the serial build of OpenBLAS)")
endif()
