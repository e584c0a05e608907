# Benchmarks.cmake: every benchmarks/bench_*.c is a program, linked with benchmarks/harness.c; so is
# every benchmarks/savina/*.c, a benchmark of the Savina suite; every benchmarks/compare/peer_*.c is
# the program of a peer, which knows nothing of Troupe. Peers in other languages are built if they
# are asked for and what they need is installed; they are missing elsewhere.
option(TROUPE_PEERS "Build the peers of the benchmarks in other languages" OFF)

set(benchmarks_dir ${PROJECT_BINARY_DIR}/benchmarks)
set(compare_dir ${PROJECT_SOURCE_DIR}/benchmarks/compare)
file(GLOB benchmarks CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/bench_*.c)
file(GLOB savina CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/savina/*.c)
file(GLOB peers CONFIGURE_DEPENDS ${compare_dir}/peer_*.c)
# Open MPI, where it is installed.
if(TROUPE_PEERS)
  find_package(MPI QUIET COMPONENTS C)
endif()
if(NOT TROUPE_PEERS OR NOT MPI_C_FOUND)
  list(REMOVE_ITEM peers ${compare_dir}/peer_mpi.c)
endif()
file(GLOB harness CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/harness*.c)

add_library(benchmark_harness STATIC ${harness})
target_include_directories(benchmark_harness PUBLIC ${PROJECT_SOURCE_DIR}/benchmarks)
target_link_libraries(benchmark_harness PUBLIC Threads::Threads m)
if(NOT TARGET transformer) # It needs OpenBLAS.
  list(FILTER benchmarks EXCLUDE REGEX "/bench_transformer\\.c$")
endif()
foreach(source IN LISTS benchmarks peers)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  set(folder ${benchmarks_dir}/compare)
  target_link_libraries(${name} PRIVATE benchmark_harness PkgConfig::troupe_zmq)
  if(source IN_LIST benchmarks)
    set(folder ${benchmarks_dir})
    target_link_libraries(${name} PRIVATE troupe::troupe)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${folder})
endforeach()
# The functions that searchers are compared on: also for peers in Python.
file(GLOB tune_functions CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/tune/*.c)
add_library(tune_functions SHARED ${tune_functions})
target_include_directories(tune_functions PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_link_libraries(tune_functions PRIVATE m)
target_compile_definitions(tune_functions PRIVATE TUNE_FOLDER="${PROJECT_SOURCE_DIR}/benchmarks/tune")
set_target_properties(tune_functions PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${benchmarks_dir}/compare)
target_link_libraries(bench_quality PRIVATE tune_functions)
target_sources(bench_quality PRIVATE ${PROJECT_SOURCE_DIR}/benchmarks/quality_curves.c)

if(TARGET peer_mpi)
  target_link_libraries(peer_mpi PRIVATE MPI::MPI_C)
endif()

set(savina_shared ${PROJECT_SOURCE_DIR}/benchmarks/savina/savina.c)
list(REMOVE_ITEM savina ${savina_shared})
foreach(source IN LISTS savina)
  get_filename_component(name ${source} NAME_WE)
  add_executable(savina_${name} ${source} ${savina_shared})
  target_link_libraries(savina_${name} PRIVATE benchmark_harness troupe::troupe m)
  set_target_properties(savina_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${benchmarks_dir}/savina)
endforeach()

# Its inner loop is to be vectors, as in the peer, and not to lie across two lines of code: by that
# alone the same instructions took nearly twice as long.
set_source_files_properties(${PROJECT_SOURCE_DIR}/benchmarks/savina/matmul.c
                            PROPERTIES COMPILE_OPTIONS "-O3;-falign-loops=32")

# What bench_actors runs beside the games.
file(GLOB measures CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/measure/*.c)
if(NOT TARGET digits)
  list(FILTER measures EXCLUDE REGEX "/digits_table\\.c$")
endif()
foreach(source IN LISTS measures)
  get_filename_component(name ${source} NAME_WE)
  add_executable(measure_${name} ${source})
  target_link_libraries(measure_${name} PRIVATE benchmark_harness troupe::troupe)
  set_target_properties(measure_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${benchmarks_dir}/measure)
endforeach()
if(TARGET digits)
  target_link_libraries(measure_digits_table PRIVATE digits)
endif()

# The example's transformer, and the same under MPI, whose headers are the system's.
pkg_check_modules(openmpi IMPORTED_TARGET ompi-c)
if(TARGET transformer)
  target_link_libraries(bench_transformer PRIVATE transformer)
endif()
if(TARGET transformer AND TARGET PkgConfig::openmpi)
  add_executable(mpi_transformer ${compare_dir}/mpi_transformer.c)
  target_link_libraries(mpi_transformer PRIVATE benchmark_harness decoder PkgConfig::openmpi)
  set_target_properties(mpi_transformer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${benchmarks_dir}/compare)
  configure_file(${compare_dir}/mpi_transformer.sh ${benchmarks_dir}/compare/peer_mpi_transformer COPYONLY)
endif()

# CAF, in C++: always in release form, as its makers measure it.
find_path(caf_include caf/all.hpp)
find_library(caf_core caf_core)
file(GLOB caf_sources CONFIGURE_DEPENDS ${compare_dir}/caf_*.cpp)
if(TROUPE_PEERS AND caf_include AND caf_core AND caf_sources)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    add_executable(peer_caf ${caf_sources})
    target_include_directories(peer_caf PRIVATE ${caf_include})
    target_compile_features(peer_caf PRIVATE cxx_std_17)
    set_target_properties(peer_caf PROPERTIES COMPILE_OPTIONS "-O3;-DNDEBUG") # And none of ours.
    target_link_libraries(peer_caf PRIVATE ${caf_core} Threads::Threads)
    set_target_properties(peer_caf PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${benchmarks_dir}/compare)
  endif()
endif()

# Plasma, where ./dev has put it. Its libraries know std::string of old.
set(plasma_dir ${PROJECT_SOURCE_DIR}/build/plasma/pyarrow)
if(TROUPE_PEERS AND EXISTS ${plasma_dir}/plasma-store-server)
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    add_executable(peer_plasma ${compare_dir}/peer_plasma.cpp)
    target_include_directories(peer_plasma SYSTEM PRIVATE ${plasma_dir}/include)
    target_compile_features(peer_plasma PRIVATE cxx_std_17)
    target_compile_definitions(peer_plasma PRIVATE _GLIBCXX_USE_CXX11_ABI=0 _PLASMA_NO_DEPRECATE
                                                   PLASMA_STORE="${plasma_dir}/plasma-store-server")
    set_target_properties(peer_plasma PROPERTIES
      COMPILE_OPTIONS "-O3;-DNDEBUG" BUILD_RPATH ${plasma_dir}
      RUNTIME_OUTPUT_DIRECTORY ${benchmarks_dir}/compare)
    target_link_libraries(peer_plasma PRIVATE ${plasma_dir}/libplasma.so.1100
                                              ${plasma_dir}/libarrow.so.1100 Threads::Threads)
  endif()
endif()

# Erlang: compiled modules beside a script that starts them.
find_program(erlc_program erlc)
file(GLOB erlang_sources CONFIGURE_DEPENDS ${compare_dir}/*.erl)
if(TROUPE_PEERS AND erlc_program AND erlang_sources)
  set(beams)
  foreach(source IN LISTS erlang_sources)
    get_filename_component(name ${source} NAME_WE)
    set(beam ${benchmarks_dir}/compare/${name}.beam)
    add_custom_command(OUTPUT ${beam}
      COMMAND ${erlc_program} -o ${benchmarks_dir}/compare ${source}
      DEPENDS ${source} VERBATIM)
    list(APPEND beams ${beam})
  endforeach()
  add_custom_target(peer_erlang ALL DEPENDS ${beams})
endif()
foreach(script peer_erlang peer_ray peer_mpirun peer_gloo)
  if(TROUPE_PEERS AND EXISTS ${compare_dir}/${script}.sh)
    configure_file(${compare_dir}/${script}.sh ${benchmarks_dir}/compare/${script} COPYONLY)
  endif()
endforeach()
if(TROUPE_PEERS) # It runs the program of its own name.
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_ray_train COPYONLY)
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_ray_serve COPYONLY)
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_ray_server COPYONLY)
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_mlflow COPYONLY)
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_optuna COPYONLY)
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_ray_tune COPYONLY)
  configure_file(${compare_dir}/peer_ray.sh ${benchmarks_dir}/compare/peer_ray_curves COPYONLY)
endif()
# The load of bench_server, and of its peer.
configure_file(${PROJECT_SOURCE_DIR}/benchmarks/measure/load.sh ${benchmarks_dir}/measure/load COPYONLY)
configure_file(${PROJECT_SOURCE_DIR}/benchmarks/measure/load.lua ${benchmarks_dir}/measure/load.lua
               COPYONLY)
