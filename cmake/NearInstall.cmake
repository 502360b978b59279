# SPDX-License-Identifier: MIT
# Installs the libraries, the headers, the CMake package and the pkg-config file. All of them work
# wherever the installed tree is moved to.

include(CMakePackageConfigHelpers)

set(near_libraries "")
foreach(target nearcpu nearcpu-alloc nearcpu-atomic nearcpu-ffi nearcpu-malloc nearcpu-torture)
  foreach(form ${target} ${target}_static)
    if(TARGET ${form})
      list(APPEND near_libraries ${form})
    endif()
  endforeach()
endforeach()

install(TARGETS ${near_libraries} nearcpu_export EXPORT nearcpuTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The file names are those of GCC's library, which another package owns, so they are installed in a
# directory that no linker searches by default.
set(near_libatomic_dir "${CMAKE_INSTALL_LIBDIR}/nearcpu")
foreach(form near_libatomic near_libatomic_static)
  if(TARGET ${form})
    install(TARGETS ${form}
      LIBRARY DESTINATION ${near_libatomic_dir}
      ARCHIVE DESTINATION ${near_libatomic_dir})
  endif()
endforeach()
# For LD_PRELOAD in scripts and units: a path that no version changes.
if(TARGET nearcpu-malloc)
  set(near_preload "${PROJECT_BINARY_DIR}/packaging/libnearcpu-malloc.so")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/packaging")
  file(CREATE_LINK "../libnearcpu-malloc.so.${near_soversion}" "${near_preload}" SYMBOLIC)
  install(FILES "${near_preload}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/nearcpu")
endif()
if(TARGET nearcpu-locks)
  install(TARGETS nearcpu-locks LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/nearcpu")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/packaging/valgrind.supp"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/nearcpu")

# The text, with links between its parts.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md"
  "${PROJECT_SOURCE_DIR}/ARCHITECTURE.md" DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg"
  PATTERN "sessions" EXCLUDE PATTERN "static" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.[ch]" PATTERN "*.rs" PATTERN "Cargo.*")

# For gdb, which finds by itself what is below its own data directory, by the library's whole path.
install(FILES "${PROJECT_SOURCE_DIR}/packaging/gdb.py"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/nearcpu")
if(TARGET nearcpu)
  set(near_gdb_dir "${CMAKE_INSTALL_LIBDIR}")
  if(NOT IS_ABSOLUTE "${near_gdb_dir}")
    set(near_gdb_dir "/\${CMAKE_INSTALL_PREFIX}/${near_gdb_dir}") # that of the installation
  endif()
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/gdb.py"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/gdb/auto-load${near_gdb_dir}"
    RENAME "$<TARGET_FILE_NAME:nearcpu>-gdb.py")
endif()

set(near_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/nearcpu")
install(EXPORT nearcpuTargets NAMESPACE nearcpu:: DESTINATION ${near_cmake_dir})
configure_package_config_file("${PROJECT_SOURCE_DIR}/packaging/nearcpuConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/packaging/nearcpuConfig.cmake"
  INSTALL_DESTINATION ${near_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/packaging/nearcpuConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/packaging/nearcpuConfig.cmake"
  "${PROJECT_BINARY_DIR}/packaging/nearcpuConfigVersion.cmake" DESTINATION ${near_cmake_dir})

# The prefix is written relative to the file itself; absolute directories stay as they are.
set(near_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${near_pc_dir}")
  set(near_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH near_pc_up "/${near_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" near_pc_up "${near_pc_up}")
  set(near_pc_prefix "\${pcfiledir}/${near_pc_up}")
endif()
foreach(kind LIB INCLUDE)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}DIR}")
    set(near_pc_${kind} "${CMAKE_INSTALL_${kind}DIR}")
  else()
    set(near_pc_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}DIR}")
  endif()
endforeach()
near_export_options(near_atomic_export_flags near__atomic_locks)
foreach(name nearcpu nearcpu-alloc nearcpu-atomic nearcpu-ffi nearcpu-malloc nearcpu-torture)
  configure_file("${PROJECT_SOURCE_DIR}/packaging/${name}.pc.in"
    "${PROJECT_BINARY_DIR}/packaging/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/packaging/${name}.pc" DESTINATION ${near_pc_dir})
endforeach()
