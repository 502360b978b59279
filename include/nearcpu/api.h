/* SPDX-License-Identifier: MIT */
/* api: the version, and how public functions are declared. */
#ifndef NEARCPU_API_H
#define NEARCPU_API_H

#ifdef __cplusplus
extern "C" {
#endif

/* In the library functions are protected: an object that contains the static library calls its own
 * copies of them, also where another object of the process has a library of another version. */
#define NEAR__DATA __attribute__((visibility("default")))
#ifdef NEAR__LIBRARY
#define NEAR_API __attribute__((visibility("protected")))
#else
#define NEAR_API __attribute__((visibility("default")))
#endif

/* The fast paths are inline. libnearcpu-ffi exports each of them for callers that cannot include
 * these headers: it defines this macro, so that they become functions. */
#ifndef NEAR_INLINE
#define NEAR_INLINE static inline
#endif

/* A declaration that takes the semicolon after a macro. It declares nothing: a macro may be used in
 * a C++ namespace, several times. */
#ifdef __cplusplus
#define NEAR__SEMICOLON static_assert(true, "")
#else
#define NEAR__SEMICOLON _Static_assert(1, "")
#endif

/* Of these headers. near_abi(7) says which versions work together. */
#define NEAR_VERSION_MAJOR 0
#define NEAR_VERSION_MINOR 1
#define NEAR_VERSION_PATCH 0
#define NEAR_VERSION (NEAR_VERSION_MAJOR * 10000 + NEAR_VERSION_MINOR * 100 + NEAR_VERSION_PATCH)

/* The state that the copies of the library in a process share has this suffix in its names, so that
 * versions which may differ in its form do not share it: see VERSIONS in near_abi(7). */
#define NEAR__TEXT_(x) #x
#define NEAR__TEXT(x) NEAR__TEXT_(x)
#if NEAR_VERSION_MAJOR == 0
#define NEAR__STATE_NAME(name) name "_0_" NEAR__TEXT(NEAR_VERSION_MINOR)
#define NEAR__STATE_NUMBER NEAR_VERSION_MINOR
#else
#define NEAR__STATE_NAME(name) name "_" NEAR__TEXT(NEAR_VERSION_MAJOR)
#define NEAR__STATE_NUMBER (NEAR_VERSION_MAJOR << 16)
#endif
#define NEAR__STATE(name) __asm__(NEAR__STATE_NAME(#name))

/* NEAR_VERSION of the library that the program uses. */
NEAR_API int near_version(void);

#ifdef __cplusplus
}
#endif

#endif
