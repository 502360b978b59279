# SPDX-License-Identifier: MIT
# musl-gcc sees musl's headers alone. The kernel's are the same for every C library, so they are
# linked into a directory of their own; all of /usr/include would let glibc's headers in.
set(CMAKE_C_COMPILER musl-gcc)

set(near_kernel_headers "${CMAKE_BINARY_DIR}/kernel-headers")
execute_process(COMMAND gcc -print-multiarch OUTPUT_VARIABLE near_triplet
  OUTPUT_STRIP_TRAILING_WHITESPACE)
file(MAKE_DIRECTORY "${near_kernel_headers}")
file(CREATE_LINK /usr/include/linux "${near_kernel_headers}/linux" SYMBOLIC)
file(CREATE_LINK /usr/include/asm-generic "${near_kernel_headers}/asm-generic" SYMBOLIC)
file(CREATE_LINK "/usr/include/${near_triplet}/asm" "${near_kernel_headers}/asm" SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-idirafter ${near_kernel_headers}")

# Libraries of the system are glibc's.
set(CMAKE_FIND_ROOT_PATH /usr/lib/musl)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
