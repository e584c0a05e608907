# The report of a sweep in a browser.
if(NOT TROUPE_SANITIZE)
  add_test(NAME tune/browser
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/tune/browser.sh ${PROJECT_BINARY_DIR}/tools/troupe)
  set_tests_properties(tune/browser PROPERTIES TIMEOUT 240 LABELS "tune;slow" SKIP_RETURN_CODE 77
                       ENVIRONMENT "${test_environment}")
endif()
