# Layers.cmake: troupe_layer(name [BESIDE layer...]) declares a layer above those declared before it,
# but for those that it stands beside;
# troupe_library() makes troupe::troupe (what programs link) and troupe::inner (what tests of
# inner functions link) of them, in either form of the build.

set(layers "")
set(TROUPE_GENERATED ${PROJECT_BINARY_DIR}/include)
configure_file(${PROJECT_SOURCE_DIR}/include/troupe/version.h.in
               ${TROUPE_GENERATED}/troupe/version.h @ONLY)

include(${CMAKE_CURRENT_LIST_DIR}/Rooms.cmake)

# What tests of a layer see of the sources: a folder of links to all of it and of the layers below.
function(troupe_view name)
  set(view ${PROJECT_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${view})
  foreach(layer IN LISTS ARGN ITEMS ${name})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${view}/${layer} SYMBOLIC)
  endforeach()
  add_library(view_${name} INTERFACE)
  target_include_directories(view_${name} INTERFACE ${view} ${PROJECT_SOURCE_DIR}/include
                                                    ${TROUPE_GENERATED})
endfunction()

function(troupe_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "" "" "BESIDE")
  set(below ${layers})
  list(REMOVE_ITEM below ${layer_BESIDE} "")
  troupe_view(${name} ${below})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.c)
  set(layers ${layers} ${name} PARENT_SCOPE)
  if(NOT sources)
    message(STATUS "Layer ${name}: no sources yet")
    return()
  endif()
  if(TROUPE_LAYERED)
    add_library(troupe_${name} SHARED ${sources})
    if(name STREQUAL "runtime") # No source of a room.
      target_sources(troupe_${name} PRIVATE ${TROUPE_ALLOCATOR_OBJECT})
    endif()
    target_link_options(troupe_${name} PRIVATE -Wl,--no-undefined)
    foreach(layer IN LISTS below)
      if(TARGET troupe_${layer})
        target_link_libraries(troupe_${name} PUBLIC troupe_${layer})
      endif()
    endforeach()
  else()
    add_library(troupe_${name} OBJECT ${sources})
    set_target_properties(troupe_${name} PROPERTIES C_VISIBILITY_PRESET hidden)
    # A message passes through functions of ten files and looks at its thread's variables as often:
    # both are cheap only if the compiler sees the whole and the variables are at fixed places.
    target_compile_options(troupe_${name} PRIVATE ${TROUPE_WHOLE_COMPILE})
  endif()
  target_compile_options(troupe_${name} PRIVATE ${TROUPE_FRAMES})
  troupe_sees(sources ${name} ${below})
  target_include_directories(troupe_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                    ${TROUPE_GENERATED})
  target_link_libraries(troupe_${name} PRIVATE ${TROUPE_NEEDS})
endfunction()

# Makes a C file of a folder's files (Embed.cmake).
function(troupe_embed folder out header type)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  add_custom_command(OUTPUT ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUT=${out} -DHEADER=${header} -DTYPE=${type}
            -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake)
endfunction()

# Puts a folder's files into a layer.
function(troupe_assets layer folder header type)
  set(source ${PROJECT_BINARY_DIR}/${layer}_assets.c)
  troupe_embed(${PROJECT_SOURCE_DIR}/${folder} ${source} ${header} ${type})
  target_sources(troupe_${layer} PRIVATE ${source})
  set_property(SOURCE ${source} PROPERTY INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR})
endfunction()

# Lets a layer speak HTTP, where the headers of libmicrohttpd are: the library is loaded by who uses it.
function(troupe_http layer)
  if(troupe_microhttpd_FOUND AND TARGET troupe_${layer})
    target_compile_definitions(troupe_${layer} PRIVATE TROUPE_HTTP)
    target_include_directories(troupe_${layer} SYSTEM PRIVATE ${troupe_microhttpd_INCLUDEDIR})
  endif()
endfunction()

function(troupe_library)
  set(parts "")
  foreach(layer IN LISTS layers)
    if(TARGET troupe_${layer})
      list(APPEND parts troupe_${layer})
    endif()
  endforeach()
  add_library(troupe_public INTERFACE)
  target_include_directories(troupe_public INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${TROUPE_GENERATED}>)
  add_library(troupe_inner INTERFACE)
  add_library(troupe::inner ALIAS troupe_inner)

  if(TROUPE_LAYERED OR NOT parts)
    add_library(troupe INTERFACE)
    target_link_libraries(troupe INTERFACE troupe_public ${parts})
    target_link_libraries(troupe_inner INTERFACE troupe)
    add_library(troupe::troupe ALIAS troupe)
    return()
  endif()

  set(objects ${TROUPE_ALLOCATOR_OBJECT})
  foreach(part IN LISTS parts)
    list(APPEND objects $<TARGET_OBJECTS:${part}>)
  endforeach()
  set(script ${PROJECT_SOURCE_DIR}/cmake/troupe.map)
  add_library(troupe SHARED ${objects})
  # In one mapping with its constants, since each fork of a process copies every mapping.
  target_link_options(troupe PRIVATE -Wl,--no-undefined -Wl,--version-script=${script}
                                     -Wl,-z,noseparate-code
                                     ${TROUPE_WHOLE_LINK})
  if(TROUPE_WHOLE_LINK)
    # It takes the segment's address, which only mmap knows, for null.
    target_link_options(troupe PRIVATE -Wno-stringop-overflow)
  endif()
  set_target_properties(troupe PROPERTIES VERSION ${PROJECT_VERSION} LINK_DEPENDS ${script}
                        SOVERSION ${PROJECT_VERSION_MAJOR})
  add_library(troupe_static STATIC ${objects})
  set_target_properties(troupe_static PROPERTIES OUTPUT_NAME troupe EXPORT_NAME static)
  if(TROUPE_WHOLE_LINK AND CMAKE_OBJCOPY AND CMAKE_BUILD_TYPE STREQUAL "Release")
    # Only the very same compiler could read the other form of its code.
    add_custom_command(TARGET troupe_static POST_BUILD VERBATIM
      COMMAND ${CMAKE_OBJCOPY} --wildcard --remove-section=.gnu.lto_*
              --remove-section=.gnu.debuglto_* --strip-symbol=__gnu_lto_*
              $<TARGET_FILE:troupe_static>)
  endif()
  foreach(library troupe troupe_static)
    if(TARGET troupe_allocator)
      add_dependencies(${library} troupe_allocator)
    endif()
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(${library} PRIVATE ${TROUPE_NEEDS})
    target_include_directories(${library} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${TROUPE_GENERATED}>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
  # What fills the tables by which a lower room calls a higher one is named by no program.
  target_link_options(troupe_static INTERFACE -Wl,-u,trp_layer_handlers)
  target_link_libraries(troupe_inner INTERFACE troupe_static)
  target_link_options(troupe_inner INTERFACE ${TROUPE_PARTS_LINK})
  add_library(troupe::troupe ALIAS troupe)
  add_library(troupe::static ALIAS troupe_static)
endfunction()
