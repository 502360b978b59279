# SPDX-License-Identifier: MIT
# Programs with some names of the allocator, and the drop-in with the others.

# near_add_names(name source library...): the program dropin_<name>.
function(near_add_names name source)
  add_executable(dropin_${name} ${source})
  near_target_defaults(dropin_${name})
  target_compile_options(dropin_${name} PRIVATE -O1 -fno-builtin -w)
  target_link_libraries(dropin_${name} PRIVATE ${ARGN} -pthread ${CMAKE_DL_LIBS})
endfunction()

function(near_run_names name)
  foreach(mode IN ITEMS plain rseq_off check)
    near_register_test(malloc_${name} ${mode} 60 "${mode}" "${CMAKE_COMMAND}" -E env ${ARGN})
  endforeach()
endfunction()

near_add_names(names names.c)
near_run_names(names "LD_PRELOAD=${near_malloc_preload}" $<TARGET_FILE:dropin_names>)
near_add_names(names_after names.c -Wl,--no-as-needed c nearcpu-malloc)
near_run_names(names_after $<TARGET_FILE:dropin_names_after> after)
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  foreach(name IN ITEMS own_malloc wrapper)
    near_add_names(${name} ${name}.cc)
    near_run_names(${name} "LD_PRELOAD=${near_malloc_preload}" $<TARGET_FILE:dropin_${name}>)
  endforeach()
endif()
