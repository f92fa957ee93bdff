# Smoke tests under sanitizers for the gate: memory, graphs, files, plans, a run, and planted errors. Only the core is
# compiled again; the rest is shared with the ordinary build. build.asan_ubsan instruments everything.
set(core ${CLADE_SOURCES})
list(FILTER core INCLUDE REGEX "src/(base|cl|comm|io|ir|pass|plan)/")
# Optimizing takes longer than it saves. Warnings are those of the ordinary build, so they are off.
add_library(asan_flags INTERFACE)
target_compile_options(asan_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer -O0 -g1 -w)
target_compile_definitions(asan_flags INTERFACE CLADE_ASAN)
target_link_options(asan_flags INTERFACE -fsanitize=address,undefined)
add_library(asan_core OBJECT ${core})
set_target_properties(asan_core PROPERTIES EXPORT_COMPILE_COMMANDS OFF) # build.clang has them once already
target_include_directories(asan_core PRIVATE $<TARGET_PROPERTY:clade_objects,INCLUDE_DIRECTORIES>)
target_compile_definitions(asan_core PRIVATE $<TARGET_PROPERTY:clade_objects,COMPILE_DEFINITIONS>)
target_link_libraries(asan_core PRIVATE clade_flags asan_flags)

# The core's objects precede the archive, which then provides only what they lack.
foreach(unit IN ITEMS base base_alloc io_checkpoints pass_autodiff plan_early run_basic)
  add_executable(asan_${unit} ../unit/${unit}.c $<TARGET_OBJECTS:asan_core>)
  target_link_libraries(asan_${unit} PRIVATE clade_static clade_flags asan_flags PkgConfig::CMOCKA PkgConfig::JANSSON)
  clade_add_test(asan.${unit} SANITIZER COMMAND asan_${unit})
endforeach()
clade_add_planted(asan asan_flags SANITIZER)
