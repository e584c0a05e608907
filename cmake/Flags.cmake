# Flags.cmake: the dialect, the warnings and the hardening that every target gets.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL) # Elsewhere these are the other project's.
  set(CMAKE_C_FLAGS_DEBUG "-Og -g3")
  set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2")
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g3 -fno-omit-frame-pointer")
endif()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers, separated by commas: address,undefined or thread")
set(TROUPE_WARNINGS "")
if(PROJECT_IS_TOP_LEVEL)
  set(TROUPE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                      -Werror)
endif()
# Of the library: it runs on the stacks that a user's limits and threads have.
set(TROUPE_FRAMES "")
if(PROJECT_IS_TOP_LEVEL AND NOT TROUPE_SANITIZE) # They put room between variables.
  set(TROUPE_FRAMES -Wframe-larger-than=16384)
endif()

add_compile_definitions(_GNU_SOURCE)
# Fault points (runtime/base/fault.h): in every build but release, where there are tests to use them.
if(TROUPE_TESTS)
  add_compile_definitions($<$<NOT:$<CONFIG:Release>>:TROUPE_FAULTS>)
endif()
add_compile_options(${TROUPE_WARNINGS} -fstack-protector-strong)
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,--as-needed)
if(TROUPE_SANITIZE)
  add_compile_options(-fsanitize=${TROUPE_SANITIZE} -fno-sanitize-recover=all)
  if(PROJECT_IS_TOP_LEVEL)
    # They print functions and lines; with all that -g3 has, linking took as long as compiling.
    add_compile_options(-g1)
  endif()
  add_link_options(-fsanitize=${TROUPE_SANITIZE})
endif()

# For the library of the release build: optimised as a whole. Its objects have plain code as well,
# for the static library and the tests.
set(TROUPE_WHOLE_COMPILE "$<$<CONFIG:Release>:-ftls-model=initial-exec>")
set(TROUPE_WHOLE_LINK "")
set(TROUPE_PARTS_LINK "")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # What structs are zeroed and copied with: the generic choice is `rep stos`, whose beginning costs
  # more than a message's whole journey through a mailbox.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND TROUPE_WHOLE_COMPILE "$<$<CONFIG:Release>:-mtune=skylake>")
  endif()
  list(APPEND TROUPE_WHOLE_COMPILE "$<$<CONFIG:Release>:-flto>"
       "$<$<CONFIG:Release>:-ffat-lto-objects>")
  set(TROUPE_WHOLE_LINK "$<$<CONFIG:Release>:-flto=auto>")
  set(TROUPE_PARTS_LINK "$<$<CONFIG:Release>:-fno-lto>")
endif()
