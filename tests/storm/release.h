/* SPDX-License-Identifier: MIT */
#ifndef NEARCPU_TESTS_RELEASE_H
#define NEARCPU_TESTS_RELEASE_H

/* Kills and revives a count for that many milliseconds; asserts that each kill led to one release.
 * Returns how many. */
unsigned release_stress(unsigned ms);

#endif
