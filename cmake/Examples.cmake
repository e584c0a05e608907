# Examples.cmake: every examples/*.c and examples/tutorial/*.c is a program; examples/digits/*.c
# together are one, and so are those of examples/transformer.

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

# All of such a folder but its main is a library too, which the tests of the example link.
function(troupe_example_folder name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/${name}/*.c)
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(${name} PUBLIC troupe::troupe openblas_serial ${ARGN} m)
  add_executable(example_${name} ${PROJECT_SOURCE_DIR}/examples/${name}/main.c)
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR})
  target_link_libraries(example_${name} PRIVATE ${name})
endfunction()

if(TARGET openblas_serial AND TARGET PkgConfig::zlib)
  troupe_example_folder(digits PkgConfig::zlib)
  # Those of its files that know nothing of Troupe are one of their own: for a peer of the benchmarks.
  set(decoder_dir ${PROJECT_SOURCE_DIR}/examples/transformer)
  add_library(decoder STATIC ${decoder_dir}/kernels.c ${decoder_dir}/decoder.c)
  target_include_directories(decoder PUBLIC ${PROJECT_SOURCE_DIR}/examples)
  target_link_libraries(decoder PUBLIC openblas_serial m)
  troupe_example_folder(transformer)
  if(TARGET PkgConfig::xgboost)
    add_executable(example_xgboost ${PROJECT_SOURCE_DIR}/examples/xgboost/main.c)
    set_target_properties(example_xgboost PROPERTIES OUTPUT_NAME xgboost
                          RUNTIME_OUTPUT_DIRECTORY ${TROUPE_EXAMPLES_DIR})
    target_link_libraries(example_xgboost PRIVATE digits PkgConfig::xgboost)
  else()
    message(STATUS "Example xgboost: not built (it needs libxgboost-dev)")
  endif()
else()
  message(STATUS "Examples digits and transformer: not built (they need zlib and the serial build of OpenBLAS)")
endif()
