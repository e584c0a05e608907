# tests.cmake: what runtime/store/test_interleave is linked with: the explorer, and the sources of what lives
# in shared memory, compiled anew so that each access to it is a point at which others may go on
# (points.h). Included by tests/CMakeLists.txt, where each layer is a library.

set(interleave ${CMAKE_CURRENT_SOURCE_DIR}/runtime/interleave)
set(rooms ${PROJECT_SOURCE_DIR}/runtime)
file(GLOB protocol CONFIGURE_DEPENDS ${rooms}/store/*.c ${rooms}/channel/*.c)
list(FILTER protocol EXCLUDE REGEX "/(inspect|memory_report)\\.c$") # They only look.
list(APPEND protocol ${rooms}/shm/pages.c ${rooms}/shm/slab.c ${rooms}/shm/prefault.c
     ${rooms}/shm/reclaim.c)

add_library(interleave_explorer STATIC ${interleave}/explore.c ${interleave}/waits.c
            ${interleave}/delays.c ${interleave}/schedule.c ${interleave}/memory.c)
target_compile_options(interleave_explorer PRIVATE -fPIC -O2)
target_include_directories(interleave_explorer PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/runtime)
target_link_libraries(interleave_explorer PRIVATE view_runtime test_support)

# -fPIC: a program that is not would have the library's variables to itself.
add_library(interleave_points INTERFACE)
target_compile_options(interleave_points INTERFACE -fPIC -O2 -include ${interleave}/points.h -Wno-shadow)
target_include_directories(interleave_points INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/runtime)
target_link_libraries(interleave_points INTERFACE view_runtime ${TROUPE_NEEDS})

add_library(interleave_protocol SHARED ${protocol} ${interleave}/points.c)
target_link_libraries(interleave_protocol PRIVATE interleave_points)
set_source_files_properties(${rooms}/store/spill_file.c PROPERTIES
                            COMPILE_DEFINITIONS POINT_FILES)

# Before the layers, which have these functions as well.
get_target_property(others runtime_store_test_interleave LINK_LIBRARIES)
set_target_properties(runtime_store_test_interleave PROPERTIES
                      LINK_LIBRARIES "interleave_explorer;interleave_protocol;${others}")
target_link_libraries(runtime_store_test_interleave PRIVATE interleave_points)

add_test(NAME runtime/store/test_interleave.deep COMMAND runtime_store_test_interleave --spend 3 --most 400000)
add_test(NAME runtime/store/test_interleave.delayed COMMAND runtime_store_test_interleave --spend 2 --most 50000 --delayed)
set_tests_properties(runtime/store/test_interleave.deep runtime/store/test_interleave.delayed PROPERTIES TIMEOUT 900 LABELS "runtime;slow" COST 900
                     ENVIRONMENT "${test_environment}")

# Each of these takes something from the protocols that some scene must miss: the source with one
# text exchanged for another, loaded before the right one. See docs/verification.md.
function(interleave_mutant name file scene was is)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/runtime/mutants/${name}.c)
  file(READ ${PROJECT_SOURCE_DIR}/runtime/${file} text)
  string(FIND "${text}" "${was}" at)
  string(FIND "${text}" "${was}" last REVERSE)
  if(at LESS 0 OR NOT at EQUAL last)
    message(FATAL_ERROR "runtime/${file} does not say once: ${was}")
  endif()
  string(REPLACE "${was}" "${is}" text "${text}")
  file(CONFIGURE OUTPUT ${source} CONTENT "#line 1 \"${file}\"\n@text@" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${PROJECT_SOURCE_DIR}/runtime/${file})
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/runtime/mutants/libmutant_${name}.scene "${scene}")
  if(file STREQUAL store/spill_file.c)
    set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS POINT_FILES)
  endif()
  add_library(mutant_${name} MODULE ${source} ${interleave}/points.c)
  target_link_libraries(mutant_${name} PRIVATE interleave_points)
  target_compile_options(mutant_${name} PRIVATE -Wno-unused -Wno-unused-parameter)
  set_target_properties(mutant_${name} PROPERTIES PREFIX lib
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/runtime/mutants)
endfunction()
include(runtime/interleave/mutants.cmake)
add_test(NAME runtime/store/test_interleave.mutants
         COMMAND sh ${interleave}/mutants.sh $<TARGET_FILE:runtime_store_test_interleave>
                 ${CMAKE_CURRENT_BINARY_DIR}/runtime/mutants)
set_tests_properties(runtime/store/test_interleave.mutants PROPERTIES TIMEOUT 120 LABELS "runtime"
                     ENVIRONMENT "${test_environment}")
