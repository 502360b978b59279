/* SPDX-License-Identifier: MIT */
/* Private: annotations for ThreadSanitizer, which does not see the memory that a sequence passes
 * from thread to thread. */
#ifndef NEARCPU_TSAN_ANNOTATIONS_H
#define NEARCPU_TSAN_ANNOTATIONS_H

#ifdef __cplusplus
extern "C" {
#endif

void __tsan_acquire(void *p);
void __tsan_release(void *p);

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
#if NEAR__TSAN
#define NEAR__TSAN_ACQUIRE(p) __tsan_acquire(p)
#define NEAR__TSAN_RELEASE(p) __tsan_release(p)
#else
#define NEAR__TSAN_ACQUIRE(p) ((void)(p))
#define NEAR__TSAN_RELEASE(p) ((void)(p))
#endif

#ifdef __cplusplus
}
#endif

#endif
