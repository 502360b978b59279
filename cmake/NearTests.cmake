# SPDX-License-Identifier: MIT
# How tests are built and registered. A test runs once per mode, as the ctest test <name>.<mode>
# with the label <mode>:
#   plain     as the machine is
#   rseq_off  NEAR_CONF=rseq:off: the portable path
#   own_area  glibc's registration switched off: the library registers an area of its own
#   slot_cpu  NEAR_CONF=slot:cpu: a slot per cpu instead of per concurrency id
#   check     NEAR_CONF=malloc_check:1 (tests that name it)
#   order     NEAR_CONF=lock_check:2 (tests that name it): stops at a lock-order cycle
#   valgrind  under memcheck, which has no rseq (tests that ask for it)
#   qemu      under qemu-user, which has no rseq (the only mode of a cross build)
# Exit code 77 means skipped.
#
# A test also has the label in_<folder>, by which ./dev test --changed selects it.
#
# ./dev test, the first tier, runs those of the preset dev in the modes plain and rseq_off, check
# and order, except for those with the label matrix: they need another compiler or CPU, or what else
# only the matrix installs. A test that is too expensive for each run of the matrix takes turns:
# those with the label third_<k> run in each third turn, and so on. With one compiler all modes run
# each time; with the others, plain does, and one of the other modes. A stress test with the label
# long_<k> runs for half a minute in each fourth turn. scripts/test.sh selects.
#
# The label package is for those who build packages (README.md): near_label_package selects the
# tests, all of which pass or are skipped in a build chroot. tests/chroot runs them in one.

set(near_test_environment
  "ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0")
set(near_mode_plain "")
set(near_mode_rseq_off "NEAR_CONF=rseq:off")
set(near_mode_own_area "GLIBC_TUNABLES=glibc.pthread.rseq=0")
set(near_mode_slot_cpu "NEAR_CONF=slot:cpu")
set(near_mode_check "NEAR_CONF=malloc_check:1")
set(near_mode_order "NEAR_CONF=lock_check:2")

include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h NEAR_HAVE_GLIBC)
find_program(NEAR_VALGRIND valgrind)
find_program(NEAR_SETARCH setarch)
find_program(NEAR_CLANG clang)
find_program(NEAR_PYTHON python3)
mark_as_advanced(NEAR_VALGRIND NEAR_SETARCH NEAR_CLANG NEAR_PYTHON)
# Debian's python3-minimal has but a part of the standard library.
if(NEAR_PYTHON)
  execute_process(COMMAND "${NEAR_PYTHON}" -c "import ctypes, json, resource, unittest"
    RESULT_VARIABLE near_python_fails OUTPUT_QUIET ERROR_QUIET)
  if(near_python_fails)
    message(STATUS "${NEAR_PYTHON} has no standard library: no tests in Python")
    set(NEAR_PYTHON "")
  endif()
endif()

if(CMAKE_CROSSCOMPILING)
  set(near_test_modes qemu)
elseif(NEAR_HAVE_GLIBC)
  set(near_test_modes plain rseq_off own_area slot_cpu)
else()
  set(near_test_modes plain rseq_off slot_cpu)
endif()

# ThreadSanitizer and AddressSanitizer of gcc 12 and clang 14 fail now and then where the kernel
# randomizes more address bits than they expect.
set(near_test_launcher ${CMAKE_CROSSCOMPILING_EMULATOR})
if(near_sanitizers AND NEAR_SETARCH AND NOT CMAKE_CROSSCOMPILING)
  execute_process(COMMAND "${NEAR_SETARCH}" -R true RESULT_VARIABLE near_setarch_fails
    OUTPUT_QUIET ERROR_QUIET)
  if(NOT near_setarch_fails)
    set(near_test_launcher "${NEAR_SETARCH}" -R)
  endif()
endif()

# cmocka of the system is built for the system's own CPU and libc. Elsewhere a small header that
# speaks the same words takes its place.
add_library(near_cmocka INTERFACE)
if(NEAR_HAVE_GLIBC AND NOT CMAKE_CROSSCOMPILING)
  find_library(NEAR_CMOCKA cmocka REQUIRED)
  mark_as_advanced(NEAR_CMOCKA)
  target_link_libraries(near_cmocka INTERFACE "${NEAR_CMOCKA}")
else()
  target_include_directories(near_cmocka INTERFACE "${PROJECT_SOURCE_DIR}/tests/cmocka")
endif()

# Of tests that fork while the library makes a thread; see its comment.
add_library(near_forks_wait INTERFACE)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  target_sources(near_forks_wait INTERFACE
    "${PROJECT_SOURCE_DIR}/tests/support/emulated_threads.c")
  target_link_options(near_forks_wait INTERFACE -Wl,--wrap=pthread_create)
endif()

# What a test includes of the sources, and of other tests.
set(near_finds "${PROJECT_SOURCE_DIR}/tests/support/finds.sh") # a harness of mutants
set(near_test_includes "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests/support"
  "${PROJECT_SOURCE_DIR}/tests")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NEAR_HAVE_GLIBC AND NOT near_sanitizers)
  set(near_modes_taking_turns "")
else()
  set(near_modes_taking_turns rseq_off own_area slot_cpu)
endif()

# near_label_turn(variable name mode): appends the label of the turn that a test in such a mode has.
# The modes of one test have different turns.
function(near_label_turn variable name mode)
  list(FIND near_modes_taking_turns "${mode}" place)
  if(place GREATER_EQUAL 0)
    string(MD5 hash "${name}")
    string(SUBSTRING "${hash}" 0 4 hash)
    math(EXPR turn "(0x${hash} + ${place}) % 3")
    set(${variable} "${${variable}};third_${turn}" PARENT_SCOPE)
  endif()
endfunction()

# near_label_folder(variable): appends the label of the folder.
function(near_label_folder variable)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "^tests/" "" folder "${folder}")
  string(REGEX REPLACE "/.*" "" folder "${folder}")
  set(${variable} "${${variable}};in_${folder}" PARENT_SCOPE)
endfunction()

# near_label_package(variable mode): appends the label package where the test belongs there: every
# subject, with sequences and without, by short tests that need what the build needs. Left out is
# what keeps all CPUs busy, what compares with other compilers and programs, and what tests the
# sources themselves or the tests.
function(near_label_package variable mode)
  set(labels "${${variable}}")
  if(mode MATCHES "^(plain|rseq_off)$" AND NOT labels MATCHES
     "(^|;)(storm|once|mutant|emu|check|headers|consumer|third_.|sixth_.)(;|$)")
    set(${variable} "${labels};package" PARENT_SCOPE)
  endif()
endfunction()

# near_register_test(name mode seconds labels command...): one ctest test, <name>.<mode>. Those that
# may take longest begin first, so that no processor is idle in the end.
function(near_register_test name mode seconds labels)
  if(near_sanitizers OR CMAKE_CROSSCOMPILING OR mode STREQUAL "valgrind")
    math(EXPR seconds "${seconds} * 5")
  endif()
  near_label_package(labels "${mode}")
  near_label_turn(labels "${name}" "${mode}")
  near_label_folder(labels)
  add_test(NAME ${name}.${mode} COMMAND ${ARGN})
  set_tests_properties(${name}.${mode} PROPERTIES
    ENVIRONMENT "${near_test_environment};${near_mode_${mode}}"
    LABELS "${labels}"
    SKIP_RETURN_CODE 77
    COST ${seconds}
    TIMEOUT ${seconds})
  if("mutant" IN_LIST labels)
    set_tests_properties(${name}.${mode} PROPERTIES RUN_SERIAL ON)
  elseif("storm" IN_LIST labels)
    set_tests_properties(${name}.${mode} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# near_leave_to_matrix(name.mode...): those that there are.
function(near_leave_to_matrix)
  foreach(test IN LISTS ARGN)
    if(TEST ${test})
      set_property(TEST ${test} APPEND PROPERTY LABELS matrix)
    endif()
  endforeach()
endfunction()

# near_make_long(name mode...): the turns in which a stress test is long, one for each mode.
function(near_make_long name)
  set(turn 0)
  foreach(mode IN LISTS ARGN)
    if(TEST ${name}.${mode})
      set_property(TEST ${name}.${mode} APPEND PROPERTY LABELS long_${turn})
    endif()
    math(EXPR turn "${turn} + 1")
  endforeach()
endfunction()

# near_wide_names(variable): of link options that wrap functions, the names that glibc has for times
# and offsets of 64 bits where long has 32: tests/support/wide_names.h.
function(near_wide_names variable)
  if(CMAKE_SIZEOF_VOID_P EQUAL 4 AND CMAKE_C_FLAGS MATCHES "_TIME_BITS=64")
    set(options "${${variable}}")
    list(TRANSFORM options REPLACE "=(clock_get(time|res))$" "=__\\164")
    list(TRANSFORM options REPLACE "=mmap$" "=mmap64")
    set(${variable} "${options}" PARENT_SCOPE)
  endif()
endfunction()

# near_add_test(name [STORM] [VALGRIND] [NATIVE] [SOURCES file...] [LIBS library...] [MODES mode...]
#               [SECONDS n])
# builds <name>_test from <name>_test.c and SOURCES, and registers it in each mode.
#   STORM     it keeps all CPUs busy: label storm, which runs after all others
#   VALGRIND  registers the mode valgrind too
#   NATIVE    needs a kernel: cross builds compile it, for the laboratory, but do not run it
#   MODES     only these of the modes
#   SECONDS   time limit, 60 by default; five times that under sanitizers and emulators
function(near_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STORM;VALGRIND;NATIVE" "SECONDS" "SOURCES;LIBS;MODES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "near_add_test(${name}): unknown '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_SECONDS)
    set(arg_SECONDS 60)
  endif()
  near_wide_names(arg_LIBS)
  add_executable(${name}_test ${name}_test.c ${arg_SOURCES})
  near_target_defaults(${name}_test)
  target_include_directories(${name}_test PRIVATE ${near_test_includes})
  target_link_libraries(${name}_test PRIVATE nearcpu_static near_cmocka ${arg_LIBS})
  if(arg_NATIVE AND CMAKE_CROSSCOMPILING)
    return()
  endif()

  set(labels "")
  if(arg_STORM)
    list(APPEND labels storm)
  endif()
  set(modes ${near_test_modes})
  foreach(mode check order)
    if(${mode} IN_LIST arg_MODES AND NOT CMAKE_CROSSCOMPILING)
      list(APPEND modes ${mode})
    endif()
  endforeach()
  foreach(mode IN LISTS modes)
    if(NOT arg_MODES OR mode IN_LIST arg_MODES OR mode STREQUAL "qemu")
      near_register_test(${name} ${mode} ${arg_SECONDS} "${mode};${labels}"
        ${near_test_launcher} $<TARGET_FILE:${name}_test>)
    endif()
  endforeach()
  if(arg_VALGRIND AND near_can_valgrind)
    near_register_test(${name} valgrind ${arg_SECONDS} "valgrind;${labels}"
      "${NEAR_VALGRIND}" -q --error-exitcode=99 --fair-sched=yes --leak-check=full
      "--suppressions=${PROJECT_SOURCE_DIR}/tests/support/valgrind.supp"
      --errors-for-leak-kinds=definite $<TARGET_FILE:${name}_test>)
  endif()
endfunction()

set(near_can_valgrind OFF)
if(NEAR_VALGRIND AND NOT near_sanitizers AND NOT CMAKE_CROSSCOMPILING AND NEAR_HAVE_GLIBC)
  set(near_can_valgrind ON)
endif()
