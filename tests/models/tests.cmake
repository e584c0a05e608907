# What Python reads of a version; see readers.sh.
if(TARGET models_test_repository AND NOT TROUPE_SANITIZE)
  add_test(NAME models/readers
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/models/readers.sh $<TARGET_FILE:models_test_repository>
                   ${PROJECT_SOURCE_DIR}/build/readers)
  set_tests_properties(models/readers PROPERTIES TIMEOUT 300 LABELS "models;slow" SKIP_RETURN_CODE 77
                       ENVIRONMENT "${test_environment}")
endif()
