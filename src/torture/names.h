/* SPDX-License-Identifier: MIT */
/* names: the function that contains an address, by the symbol table of a program's or shared
 * object's file. */
#ifndef NEARCPU_TORTURE_NAMES_H
#define NEARCPU_TORTURE_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* A mapped file; `image` is NULL if there is no valid one. */
struct names {
	const char *image;
	size_t size;
	uintptr_t base; /* address in the process minus address in the file */
};

void near__names_open(struct names *w, const char *path, uintptr_t base);
void near__names_close(struct names *w);

/* Returns the name of the function, valid until the file is closed, and the offset of the address
 * in it. Where that is not known: "?", and the address in the file. */
const char *near__name_of(const struct names *w, uintptr_t address, uintptr_t *offset);

#endif
