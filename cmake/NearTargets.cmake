# SPDX-License-Identifier: MIT
# How Nearcpu's own targets are compiled. Nothing here reaches the targets of a project that embeds
# it.

set(near_sanitizers "${NEAR_SANITIZE}")
string(REPLACE "," ";" near_sanitizers "${near_sanitizers}")
foreach(sanitizer IN LISTS near_sanitizers)
  if(NOT sanitizer MATCHES "^(address|undefined|thread)$")
    message(FATAL_ERROR "NEAR_SANITIZE: unknown sanitizer '${sanitizer}'; "
      "it takes a list of address, undefined, thread")
  endif()
endforeach()
list(JOIN near_sanitizers "," near_sanitizers)

# What follows .so. in a SONAME: while the major version is 0, each minor version is another
# interface, and two of them can be installed.
set(near_soversion "${PROJECT_VERSION_MAJOR}")
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND near_soversion ".${PROJECT_VERSION_MINOR}")
endif()

# Not every linker takes all of GNU's flags, and old ones of GNU do not.
include(CheckLinkerFlag)
set(near_shared_flags "")
foreach(flag --export-dynamic-symbol=main -Bsymbolic-functions -z,nodelete -z,now -z,relro)
  string(MAKE_C_IDENTIFIER "NEAR_LINKER_TAKES_${flag}" takes)
  check_linker_flag(C "LINKER:${flag}" ${takes})
  if(${takes})
    list(APPEND near_shared_flags "LINKER:${flag}")
  endif()
endforeach()
# Functions that a program may replace are exempt from the second by the first.
set(near_exports_one "${NEAR_LINKER_TAKES___export_dynamic_symbol_main}")
list(REMOVE_ITEM near_shared_flags LINKER:--export-dynamic-symbol=main)
if(NOT near_exports_one)
  list(REMOVE_ITEM near_shared_flags LINKER:-Bsymbolic-functions)
endif()

# near_export_options(variable symbol...): what makes a program export these.
function(near_export_options variable)
  set(${variable} -rdynamic PARENT_SCOPE)
  if(near_exports_one)
    list(TRANSFORM ARGN PREPEND -Wl,--export-dynamic-symbol=)
    set(${variable} "${ARGN}" PARENT_SCOPE)
  endif()
endfunction()

# near_target_defaults(target): language, warnings and sanitizers of a target of ours.
# near_folder_options: more options, for the targets of one folder.
function(near_target_defaults target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
    CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    C_VISIBILITY_PRESET hidden
    BUILD_RPATH_USE_ORIGIN ON) # else the file depends on where it was built
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpointer-arith -Wwrite-strings
    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wshadow>"
    "$<$<BOOL:${NEAR_WERROR}>:-Werror>" ${near_folder_options}
    # No directory of the build is in the binaries, nor in the places of tracepoints.
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build")
  if(near_sanitizers)
    target_compile_options(${target} PRIVATE -fsanitize=${near_sanitizers}
      -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${near_sanitizers})
  endif()
endfunction()

# near_add_library(name alias [ON_CORE] [PARTS objects] source...): shared as nearcpu::<alias>,
# static as nearcpu::<alias>_static, both from the same position-independent objects. The symbols of
# the shared one are those of packaging/lib<name>.map. It stays mapped after dlclose: threads hold
# pointers into it. ON_CORE: the shared one contains what it needs of the core, the static one
# needs it. PARTS: objects of another library, which both contain. Compiled to machine code also
# where the project that embeds it is optimized at link time: else symbols that assembly defines,
# the order of the objects and those joined by ld -r would be lost. The fast paths are inline
# functions of the headers, and optimized with the program.
function(near_add_library name alias)
  cmake_parse_arguments(PARSE_ARGV 2 arg "ON_CORE" "PARTS" "")
  add_library(${name}_objects OBJECT ${arg_UNPARSED_ARGUMENTS})
  near_target_defaults(${name}_objects)
  target_compile_options(${name}_objects PRIVATE -fno-lto)
  target_compile_definitions(${name}_objects PRIVATE NEAR__LIBRARY)
  near_library_interface(${name}_objects PRIVATE)
  target_include_directories(${name}_objects PRIVATE "${PROJECT_SOURCE_DIR}/src")
  set_target_properties(${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

  if(NEAR_STATIC)
    near_add_static(${name} "${arg_ON_CORE}" "${arg_PARTS}")
    set_target_properties(${name}_static PROPERTIES
      OUTPUT_NAME ${name} EXPORT_NAME ${alias}_static LINKER_LANGUAGE C)
    near_library_interface(${name}_static INTERFACE)
    add_library(nearcpu::${alias}_static ALIAS ${name}_static)
  endif()
  if(NEAR_SHARED)
    near_add_shared(${name} "${arg_ON_CORE}" "${arg_PARTS}")
    set_target_properties(${name} PROPERTIES EXPORT_NAME ${alias})
    add_library(nearcpu::${alias} ALIAS ${name})
  elseif(NEAR_STATIC)
    add_library(nearcpu::${alias} ALIAS ${name}_static)
  else()
    message(FATAL_ERROR "NEAR_SHARED and NEAR_STATIC are both off: nothing to build")
  endif()
endfunction()

# Threads are part of libc in musl and from glibc 2.34 on; older ones keep them in a library.
function(near_library_interface target scope)
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PRIVATE -pthread)
  if(scope STREQUAL INTERFACE AND target STREQUAL nearcpu-atomic_static)
    near_export_options(options near__atomic_locks)
    target_link_options(${target} INTERFACE ${options})
  endif()
endfunction()

# near_add_export(): for a program that contains the static library and opens shared objects that
# contain it, too: it exports the state, so that they share it. Not part of nearcpu_static, since a
# program linked with -static-pie would crash when it starts: GNU ld leaves exported thread-local
# variables to the dynamic linker, and glibc's relocation of static programs comes before there is
# any thread-local storage.
function(near_add_export)
  # The suffix of NEAR__STATE in api.h.
  string(REPLACE "." "_" suffix "_${near_soversion}")
  set(symbols near__self near__more near__no_block near__blocks near__dead near__process
    near__regions near__percpu near__lot near__locks near__read_forks near__rcu near__probes
    near__trace near__seats near__trace_table near__identity)
  list(TRANSFORM symbols APPEND "${suffix}")
  near_export_options(options ${symbols} near__first)
  add_library(nearcpu_export INTERFACE)
  target_link_options(nearcpu_export INTERFACE ${options})
  set_target_properties(nearcpu_export PROPERTIES EXPORT_NAME export)
  add_library(nearcpu::export ALIAS nearcpu_export)
  list(JOIN options " " options)
  set(near_export_flags "${options}" PARENT_SCOPE) # for nearcpu.pc
endfunction()

# near_add_ffi(source): the inline functions of the headers as functions, in libraries that need the
# core.
function(near_add_ffi source)
  foreach(form "" _static)
    if(NOT TARGET nearcpu${form})
      continue()
    endif()
    if(form)
      add_library(nearcpu-ffi${form} STATIC ${source})
    else()
      add_library(nearcpu-ffi SHARED ${source})
      set(map "${PROJECT_SOURCE_DIR}/packaging/libnearcpu-ffi.map")
      set_target_properties(nearcpu-ffi PROPERTIES LINK_DEPENDS "${map}"
        VERSION ${PROJECT_VERSION} SOVERSION ${near_soversion})
      target_link_options(nearcpu-ffi PRIVATE "LINKER:--version-script=${map}"
        ${near_shared_flags})
    endif()
    near_target_defaults(nearcpu-ffi${form})
    # Measured on an Intel Xeon (Granite Rapids): a counter add that is called by a pointer costs
    # .58 ns above the inline form; 1.1 ns where the function begins at half a cache line.
    target_compile_options(nearcpu-ffi${form} PRIVATE -falign-functions=64)
    set_target_properties(nearcpu-ffi${form} PROPERTIES OUTPUT_NAME nearcpu-ffi
      EXPORT_NAME ffi${form} POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(nearcpu-ffi${form} PUBLIC nearcpu${form})
    add_library(nearcpu::ffi${form} ALIAS nearcpu-ffi${form})
  endforeach()
endfunction()

# near_add_alloc(source): nearcpu-malloc's allocator behind the entry points of `source`, which
# replace nothing. The archive has the same objects as nearcpu-malloc_static, so that a program with
# both, that one first, has one heap.
function(near_add_alloc source)
  set(replace "/api/(aligned|cxx|entry|extra|info|mark_calls|next|options|other|replaces)\\.c\\.o")
  set(heap "$<FILTER:$<TARGET_OBJECTS:nearcpu-malloc_objects>,EXCLUDE,${replace}>")
  near_add_library(nearcpu-alloc alloc ON_CORE PARTS "${heap}" ${source})
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS)
    set_target_properties(nearcpu-alloc_objects PROPERTIES ${property}
      "$<TARGET_PROPERTY:nearcpu-malloc_objects,${property}>")
  endforeach()
endfunction()

# Symbols that replace a part of libc must come from one object: otherwise a linker that needs one
# more of them later takes libc's object, which defines all others again.
function(near_add_static name on_core parts)
  if(parts OR NOT on_core)
    add_library(${name}_static STATIC $<TARGET_OBJECTS:${name}_objects> ${parts})
    if(on_core)
      target_link_libraries(${name}_static INTERFACE nearcpu_static)
    endif()
    return()
  endif()
  set(whole "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
  add_custom_command(OUTPUT "${whole}" VERBATIM COMMAND_EXPAND_LISTS
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o "${whole}" $<TARGET_OBJECTS:${name}_objects>
    DEPENDS ${name}_objects $<TARGET_OBJECTS:${name}_objects>)
  add_library(${name}_static STATIC "${whole}")
  target_link_libraries(${name}_static INTERFACE nearcpu_static)
endfunction()

# The core as an archive, out of which a linker takes the files that something refers to. Not
# installed.
function(near_add_inner_core)
  if(NOT TARGET nearcpu_inner)
    add_library(nearcpu_inner STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:nearcpu_objects>)
    set_target_properties(nearcpu_inner PROPERTIES LINKER_LANGUAGE C)
  endif()
endfunction()

# near_compile_small(source...): rarely run, and smaller than fast. A small library matters to small
# programs: what the kernel maps around the pages that they touch counts as theirs.
function(near_compile_small)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS
    "$<$<CONFIG:Release,RelWithDebInfo>:-Os>")
endfunction()

function(near_add_shared name on_core parts)
  add_library(${name} SHARED $<TARGET_OBJECTS:${name}_objects> ${parts})
  near_link_shared(${name} ${name} "${on_core}")
  set_target_properties(${name} PROPERTIES
    VERSION ${PROJECT_VERSION}
    SOVERSION ${near_soversion})
endfunction()

# near_link_shared(target name on_core): the shared library of what ${name} consists of.
function(near_link_shared target name on_core)
  set(map "${PROJECT_SOURCE_DIR}/packaging/lib${name}.map")
  if(on_core)
    near_add_inner_core()
    target_link_libraries(${target} PRIVATE nearcpu_inner)
  endif()
  near_library_interface(${target} INTERFACE)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C LINK_DEPENDS "${map}")
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${map}" ${near_shared_flags})
  if(near_sanitizers)
    target_link_options(${target} PRIVATE -fsanitize=${near_sanitizers})
  else()
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()

# near_add_libatomic(): nearcpu-atomic under the names of GCC's library, in a directory of its own,
# which a program can put before GCC's. The archive is complete, and exports no other symbols.
function(near_add_libatomic)
  set(dir "${PROJECT_BINARY_DIR}/libatomic")
  if(TARGET nearcpu-atomic)
    add_library(near_libatomic SHARED $<TARGET_OBJECTS:nearcpu-atomic_objects>)
    near_link_shared(near_libatomic nearcpu-atomic ON)
    set_target_properties(near_libatomic PROPERTIES
      OUTPUT_NAME atomic VERSION 1.2.0 SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY "${dir}")
  endif()
  if(TARGET nearcpu-atomic_static)
    near_add_inner_core()
    set(whole "${CMAKE_CURRENT_BINARY_DIR}/near_libatomic.o")
    add_custom_command(OUTPUT "${whole}" VERBATIM COMMAND_EXPAND_LISTS
      COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o "${whole}"
        $<TARGET_OBJECTS:nearcpu-atomic_objects> $<TARGET_FILE:nearcpu_inner>
      COMMAND ${CMAKE_OBJCOPY} --localize-hidden "${whole}"
      DEPENDS nearcpu-atomic_objects $<TARGET_OBJECTS:nearcpu-atomic_objects> nearcpu_inner)
    add_library(near_libatomic_static STATIC "${whole}")
    set_target_properties(near_libatomic_static PROPERTIES
      OUTPUT_NAME atomic LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY "${dir}")
  endif()
endfunction()
