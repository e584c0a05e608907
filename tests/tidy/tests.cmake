# tests.cmake: what is asked of the sources, of a mistaken program, and of the finished library.
# Included by tests/CMakeLists.txt; each is asked in the form of the build that it concerns.

function(troupe_script_test name)
  add_test(NAME ${name} COMMAND sh ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS "tidy")
endfunction()

set(here ${CMAKE_CURRENT_SOURCE_DIR})
if(TROUPE_LAYERED)
  troupe_script_test(tidy/rules ${here}/tidy/rules.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/rules_test ${here}/tidy/rules_test.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/api ${here}/tidy/api.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/api_test ${here}/tidy/api_test.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/readme ${here}/tidy/readme.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/dev ${here}/tidy/dev_test.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/workflow ${here}/tidy/workflow.sh ${PROJECT_SOURCE_DIR})
  troupe_script_test(tidy/layers ${here}/tidy/layers.sh ${PROJECT_SOURCE_DIR})
  add_test(NAME tidy/rooms COMMAND sh ${here}/tidy/rooms.sh ${PROJECT_SOURCE_DIR}
           $<TARGET_OBJECTS:troupe_runtime> $<TARGET_OBJECTS:troupe_actors> COMMAND_EXPAND_LISTS)
  set_tests_properties(tidy/rooms PROPERTIES TIMEOUT 60 LABELS "tidy")
  troupe_script_test(tidy/inversion ${here}/tidy/inversion.sh ${PROJECT_SOURCE_DIR}
                     $<TARGET_FILE:troupe_actors> $<TARGET_FILE:troupe_train>
                     $<TARGET_FILE:troupe_models> $<TARGET_FILE:troupe_tune>)
  troupe_script_test(tidy/rooms_test ${here}/tidy/rooms_test.sh ${PROJECT_SOURCE_DIR}
                     ${CMAKE_C_COMPILER})
  troupe_script_test(tidy/views ${here}/tidy/views.sh ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}
                     ${CMAKE_C_COMPILER})
  troupe_script_test(api/misuse ${here}/api/misuse.sh ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR}
                     ${TROUPE_GENERATED})
  troupe_script_test(api/mistakes ${here}/api/mistakes.sh ${PROJECT_SOURCE_DIR} ${TROUPE_GENERATED})
  troupe_script_test(install/again ${here}/install/again.sh ${PROJECT_SOURCE_DIR})
  if(TARGET troupe_server) # Which knows some of the commands.
    add_test(NAME tidy/completion COMMAND bash ${here}/tidy/completion.sh ${PROJECT_SOURCE_DIR}
             $<TARGET_FILE_DIR:troupe_tool>)
    set_tests_properties(tidy/completion PROPERTIES TIMEOUT 60 LABELS "tidy")
  endif()
  # The default of a project without a build type, and one in which the whole is built and run.
  troupe_script_test(install/added ${here}/install/added.sh ${PROJECT_SOURCE_DIR} none)
  troupe_script_test(install/added_built ${here}/install/added.sh ${PROJECT_SOURCE_DIR} Debug build)
  set_tests_properties(install/added_built PROPERTIES LABELS "tidy;slow" TIMEOUT 600)
elseif(TARGET troupe AND NOT TROUPE_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
  troupe_script_test(release/symbols ${here}/tidy/symbols.sh $<TARGET_FILE:troupe>
                     ${PROJECT_SOURCE_DIR}/tools/symbols.txt)
  troupe_script_test(release/hardening ${here}/tidy/hardening.sh $<TARGET_FILE:troupe>)
  foreach(way pkgconfig static cmake cxx examples)
    troupe_script_test(install/${way} ${here}/install/run.sh ${way} ${PROJECT_BINARY_DIR}
                       ${PROJECT_SOURCE_DIR})
  endforeach()
endif()
