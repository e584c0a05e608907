# Allocator.cmake: what the library's private memory comes from (runtime/base/memory.c): the C
# library, or Debian's jemalloc, made part of the library.
#
# jemalloc would replace the program's malloc as a shared library does, and as a plain static one
# would within this library, where blocks of the C library's getline or getaddrinfo are freed. So
# its archive becomes one object file of which only mallocx, rallocx and dallocx are seen, under
# names of ours. Its variables of a thread take 2.6 KB of the little that a running program has left
# for libraries that it loads: such a library must be linked, and cannot be loaded by dlopen.
# docs/decisions/0019-private-memory-is-the-c-librarys.md has what was measured.
set(TROUPE_ALLOCATOR "malloc" CACHE STRING "Where private memory comes from: malloc or jemalloc")
set(TROUPE_ALLOCATOR_OBJECT "")
if(TROUPE_ALLOCATOR STREQUAL "jemalloc")
  if(TROUPE_SANITIZE)
    message(FATAL_ERROR "TROUPE_ALLOCATOR=jemalloc: sanitizers see the C library's malloc alone")
  endif()
  find_library(jemalloc_archive libjemalloc_pic.a REQUIRED)
  set(dir ${PROJECT_BINARY_DIR}/jemalloc)
  set(TROUPE_ALLOCATOR_OBJECT ${dir}/troupe_jemalloc.o)
  file(MAKE_DIRECTORY ${dir})
  add_custom_command(OUTPUT ${TROUPE_ALLOCATOR_OBJECT} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E copy ${jemalloc_archive} ${dir}/all.a
    # The C++ operators, for which a C library has no use.
    COMMAND ${CMAKE_AR} d ${dir}/all.a jemalloc_cpp.pic.o
    COMMAND ${CMAKE_LINKER} -r -o ${dir}/all.o --whole-archive ${dir}/all.a
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=mallocx --keep-global-symbol=rallocx
            --keep-global-symbol=dallocx --redefine-sym mallocx=trp_mallocx
            --redefine-sym rallocx=trp_rallocx --redefine-sym dallocx=trp_dallocx
            --keep-global-symbol=trp_mallocx --keep-global-symbol=trp_rallocx
            --keep-global-symbol=trp_dallocx ${dir}/all.o ${TROUPE_ALLOCATOR_OBJECT}
    DEPENDS ${jemalloc_archive} COMMENT "Making jemalloc a part of the library")
  add_custom_target(troupe_allocator DEPENDS ${TROUPE_ALLOCATOR_OBJECT})
  set_source_files_properties(${TROUPE_ALLOCATOR_OBJECT} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/runtime/base/memory.c PROPERTIES
                              COMPILE_DEFINITIONS TRP_JEMALLOC)
elseif(NOT TROUPE_ALLOCATOR STREQUAL "malloc")
  message(FATAL_ERROR "TROUPE_ALLOCATOR is \"${TROUPE_ALLOCATOR}\"; it can be malloc or jemalloc")
endif()
