# The C of docs/coming-from-ray.md, all its blocks in their order, is one program: it is compiled as a
# user's would be, and must print what is in coming_from_ray.txt. So with each such page.
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/docs)
foreach(system ray ray-train tune erlang)
  set(page ${PROJECT_SOURCE_DIR}/docs/coming-from-${system}.md)
  set(name coming_from_${system})
  set(program ${CMAKE_CURRENT_BINARY_DIR}/docs/${name}.c)
  add_custom_command(
    OUTPUT ${program}
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/take_code.sh ${page} ${program}
    DEPENDS ${page} ${CMAKE_CURRENT_SOURCE_DIR}/docs/take_code.sh
    VERBATIM)
  add_executable(docs_${name} ${program})
  set_target_properties(docs_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/docs)
  target_link_libraries(docs_${name} PRIVATE troupe::troupe)
  add_test(NAME docs/${name}
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/compare.sh $<TARGET_FILE:docs_${name}>
                   ${CMAKE_CURRENT_SOURCE_DIR}/docs/${name}.txt)
  set_tests_properties(docs/${name} PROPERTIES TIMEOUT 60 LABELS docs
                       ENVIRONMENT "${test_environment}")
endforeach()
foreach(script man guarantees guarantees_test contract contract_test shape environment statuses
               trainer_calls)
  add_test(NAME docs/${script}
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/${script}.sh ${PROJECT_SOURCE_DIR})
  set_tests_properties(docs/${script} PROPERTIES TIMEOUT 60 LABELS docs)
endforeach()
add_test(NAME docs/tutorial
         COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/docs/tutorial.sh ${PROJECT_SOURCE_DIR}
                 ${TROUPE_EXAMPLES_DIR}/tutorial)
set_tests_properties(docs/tutorial PROPERTIES TIMEOUT 240 LABELS docs
                     ENVIRONMENT "${test_environment}")
add_test(NAME docs/figures
         COMMAND sh ${PROJECT_SOURCE_DIR}/benchmarks/results/pages.sh check ${PROJECT_SOURCE_DIR})
set_tests_properties(docs/figures PROPERTIES TIMEOUT 60 LABELS docs)
