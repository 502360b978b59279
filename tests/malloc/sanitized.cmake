# SPDX-License-Identifier: MIT
# The allocator's tests in programs with sanitizers, which have a malloc of their own.

set(near_stress_sources blocks.c stress.c)

# AddressSanitizer's gives way to ours, if a name that only ours has brings that in first.
# UndefinedBehaviorSanitizer checks the allocator itself. The check mode would be on by itself.
if(near_sanitizers MATCHES "address")
  set(near_mode_check "NEAR_CONF=malloc_check:1")
  foreach(name decay extra large layers place process reports stats)
    set(modes plain)
    if(name MATCHES "extra|process")
      list(APPEND modes check)
    endif()
    near_add_test(malloc_${name} MODES ${modes} LIBS -Wl,-u,nallocx nearcpu-malloc_static)
    set_property(TEST malloc_${name}.plain APPEND PROPERTY ENVIRONMENT NEAR_CONF=malloc_check:0)
  endforeach()
  target_link_libraries(malloc_stats_test PRIVATE -Wl,--wrap=process_vm_readv)
  near_add_test(malloc_torture MODES plain LIBS nearcpu-torture_static)
endif()

# ThreadSanitizer's stays: ours is called by other names. It does not see what sequences do, so they
# are off.
if(near_sanitizers MATCHES "thread")
  set(names malloc calloc realloc reallocarray free cfree memalign aligned_alloc posix_memalign
    valloc pvalloc malloc_usable_size malloc_trim mallopt malloc_info malloc_stats mallinfo
    mallinfo2)
  list(TRANSFORM names REPLACE "(.+)" "--redefine-sym=\\1=ours_\\1" OUTPUT_VARIABLE options)
  list(TRANSFORM names REPLACE "(.+)" "\\1=ours_\\1" OUTPUT_VARIABLE definitions)
  set(renamed "${CMAKE_CURRENT_BINARY_DIR}/nearcpu-malloc-renamed.o")
  add_custom_command(OUTPUT "${renamed}" VERBATIM
    COMMAND ${CMAKE_OBJCOPY} ${options} "${PROJECT_BINARY_DIR}/nearcpu-malloc.o" "${renamed}"
    DEPENDS nearcpu-malloc_static)
  add_custom_target(near_malloc_renamed DEPENDS "${renamed}")
  foreach(name layers large stats)
    near_add_test(malloc_${name} MODES rseq_off LIBS "${renamed}")
  endforeach()
  target_link_libraries(malloc_stats_test PRIVATE -Wl,--wrap=process_vm_readv)
  near_add_test(malloc_stress STORM MODES rseq_off
    SOURCES ${near_stress_sources} plain_loads.c LIBS "${renamed}")
  foreach(name layers large stats stress)
    add_dependencies(malloc_${name}_test near_malloc_renamed)
    target_compile_definitions(malloc_${name}_test PRIVATE ${definitions})
  endforeach()
endif()
