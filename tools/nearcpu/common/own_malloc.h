/* SPDX-License-Identifier: MIT */
/* own_malloc: whether a program brings a malloc of its own, which a preloaded one does not
 * replace. */
#ifndef NEARCPU_OWN_MALLOC_H
#define NEARCPU_OWN_MALLOC_H

/* What the allocator within this file is called: "jemalloc", for example; NULL: its symbols show
 * none, or it has no symbols. Not for two threads at once. */
const char *own_malloc(const char *elf);

/* For people: which programs ignore a preload. */
#define PRELOAD_IGNORED                                                                            \
	"A preload is ignored by static programs (those of Go, for example), and by those that "   \
	"get more rights than the user has (setuid, setgid, file capabilities). It changes "       \
	"nothing for what a program allocates by a malloc within its own file (often jemalloc, "   \
	"tcmalloc, mimalloc) or takes from the kernel itself (Java's heap, that of JavaScript)."

#endif
