# What other programs read of a run; see readers.sh.
if(TARGET train_test_derived AND TARGET train_test_safetensors AND NOT TROUPE_SANITIZE)
  add_test(NAME train/readers
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/readers.sh $<TARGET_FILE:train_test_derived>
                   $<TARGET_FILE:train_test_safetensors> ${PROJECT_SOURCE_DIR}/build/readers)
  set_tests_properties(train/readers PROPERTIES TIMEOUT 300 LABELS "train;slow" SKIP_RETURN_CODE 77
                       ENVIRONMENT "${test_environment}")
endif()
# The report of a run in a browser.
if(NOT TROUPE_SANITIZE)
  add_test(NAME train/browser
           COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/browser.sh ${PROJECT_BINARY_DIR}/tools/troupe)
  set_tests_properties(train/browser PROPERTIES TIMEOUT 120 LABELS "train;slow" SKIP_RETURN_CODE 77
                       ENVIRONMENT "${test_environment}")
endif()
