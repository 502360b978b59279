/* SPDX-License-Identifier: MIT */
/* api: the version, and how public functions are declared. */
#ifndef NEARCPU_API_H
#define NEARCPU_API_H

#ifdef __cplusplus
extern "C" {
#endif

#define NEAR_API __attribute__((visibility("default")))

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

/* NEAR_VERSION of the library that the program uses. */
NEAR_API int near_version(void);

#ifdef __cplusplus
}
#endif

#endif
