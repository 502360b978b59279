/* SPDX-License-Identifier: MIT */
/* api: the version, and how public functions are declared. */
#ifndef NEARCPU_API_H
#define NEARCPU_API_H

/* What is between the two has C linkage. */
#ifdef __cplusplus
#define NEAR__BEGIN_DECLS extern "C" {
#define NEAR__END_DECLS }
#else
#define NEAR__BEGIN_DECLS
#define NEAR__END_DECLS
#endif

NEAR__BEGIN_DECLS

/* In the library functions are protected: an object that contains the static library calls its own
 * copies of them, also where another object of the process has a library of another version. */
#define NEAR__DATA __attribute__((visibility("default")))
#ifdef NEAR__LIBRARY
#define NEAR_API __attribute__((visibility("protected")))
#else
#define NEAR_API __attribute__((visibility("default")))
#endif

/* ThreadSanitizer, see detail/tsan.h. */
#if defined(__SANITIZE_THREAD__)
#define NEAR__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NEAR__TSAN 1
#endif
#endif
#ifndef NEAR__TSAN
#define NEAR__TSAN 0
#endif
#ifndef NEAR_VALGRIND
#define NEAR_VALGRIND 0
#endif

/* Inline functions. In C++ they have external linkage: a module can export them, and inline
 * functions of the program may call them. They are hidden, so that no library's copy, perhaps of
 * another version of these headers, takes the place of another one's. What is in one link and has
 * another body, as the version or a macro makes it, has another symbol: the tags are part of it. */
#ifdef __cplusplus
#define NEAR__INLINE                                                                               \
	extern "C++" inline __attribute__((                                                        \
		visibility("hidden"), abi_tag(NEAR__TAG_VERSION NEAR__TAG_TSAN NEAR__TAG_VALGRIND  \
						      NEAR__TAG_GENERIC NEAR__TAG_DEBUG)))
#define NEAR__TAG_VERSION                                                                          \
	"near_" NEAR__STRING(NEAR_VERSION_MAJOR) "_" NEAR__STRING(                                 \
		NEAR_VERSION_MINOR) "_" NEAR__STRING(NEAR_VERSION_PATCH)
#define NEAR__STRING(x) NEAR__STRING_(x)
#define NEAR__STRING_(x) #x
#if NEAR__TSAN
#define NEAR__TAG_TSAN "_tsan"
#else
#define NEAR__TAG_TSAN
#endif
#if NEAR_VALGRIND
#define NEAR__TAG_VALGRIND "_valgrind"
#else
#define NEAR__TAG_VALGRIND
#endif
#ifdef NEAR_ARCH_GENERIC
#define NEAR__TAG_GENERIC "_generic"
#else
#define NEAR__TAG_GENERIC
#endif
#ifdef NEAR_DEBUG
#define NEAR__TAG_DEBUG "_debug"
#else
#define NEAR__TAG_DEBUG
#endif
#else
#define NEAR__INLINE static inline
#endif

/* The fast paths. libnearcpu-ffi exports each of them for callers that cannot include these
 * headers: it defines this macro, so that they become functions. */
#ifndef NEAR_INLINE
#define NEAR_INLINE NEAR__INLINE
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
#define NEAR_VERSION_MINOR 2
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

/* At file scope, after the definition of an object: makes `call`, which initialises it, before main
 * and before constructors that have no priority. If the call fails, one line names the object, and
 * the program stops.
 *
 *     static struct near_counter hits;
 *     NEAR_EARLY(hits, near_counter_init(&hits));
 */
#define NEAR_EARLY(name, call)                                                                     \
	__attribute__((constructor(101))) static void near__early_##name(void)                     \
	{                                                                                          \
		near__init_early(call, #name);                                                     \
	}                                                                                          \
	NEAR__SEMICOLON
NEAR_API void near__init_early(int r, const char *name);

/* Using an object that was not initialised is a SIGSEGV. In code that is compiled with -DNEAR_DEBUG
 * the inline functions check for it: one line names the function and the object, and the program
 * stops. */
#ifdef NEAR_DEBUG
#define NEAR__CHECK_READY(field, object)                                                           \
	((field) ? (void)0 : near__used_before_init(__func__, (object)))
#else
#define NEAR__CHECK_READY(field, object) ((void)0)
#endif
NEAR_API void near__used_before_init(const char *function, const void *object)
	__attribute__((noreturn, cold));

NEAR__END_DECLS

#endif
