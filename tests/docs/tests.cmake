# The C of docs/coming-from-ray.md, all its blocks in their order, is one program: it is compiled as a
# user's would be, and must print what is in coming_from_ray.txt.
set(page ${PROJECT_SOURCE_DIR}/docs/coming-from-ray.md)
set(program ${CMAKE_CURRENT_BINARY_DIR}/docs/coming_from_ray.c)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/docs)
add_custom_command(
  OUTPUT ${program}
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/take_code.sh ${page} ${program}
  DEPENDS ${page} ${CMAKE_CURRENT_SOURCE_DIR}/docs/take_code.sh
  VERBATIM)
add_executable(docs_coming_from_ray ${program})
set_target_properties(docs_coming_from_ray PROPERTIES
  OUTPUT_NAME coming_from_ray RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/docs)
target_link_libraries(docs_coming_from_ray PRIVATE troupe::troupe)
add_test(NAME docs/coming_from_ray
         COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/compare.sh $<TARGET_FILE:docs_coming_from_ray>
                 ${CMAKE_CURRENT_SOURCE_DIR}/docs/coming_from_ray.txt)
set_tests_properties(docs/coming_from_ray PROPERTIES TIMEOUT 60 LABELS docs
                     ENVIRONMENT "${test_environment}")
