# SPDX-License-Identifier: MIT
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i686)
set(CMAKE_C_COMPILER i686-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER i686-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/i686-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Most kernels for x86_64 run these programs; the dynamic linker is one.
execute_process(COMMAND /usr/i686-linux-gnu/lib/ld-linux.so.2 --version
  RESULT_VARIABLE near_i686_fails OUTPUT_QUIET ERROR_QUIET)
if(near_i686_fails)
  find_program(NEAR_EMULATOR NAMES qemu-i386-static qemu-i386)
  mark_as_advanced(NEAR_EMULATOR)
  if(NEAR_EMULATOR)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${NEAR_EMULATOR}")
  endif()
endif()
