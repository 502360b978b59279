/* SPDX-License-Identifier: MIT */
/* names: the function that an address stands in, by the symbol table of a program's or shared
 * object's file. */
#ifndef NEARCPU_TORTURE_NAMES_H
#define NEARCPU_TORTURE_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* A mapped file; `image` is NULL if there is none that makes sense. */
struct names {
	const char *image;
	size_t size;
	uintptr_t base; /* what the addresses of the process are above those of the file */
};

void near__names_open(struct names *w, const char *path, uintptr_t base);
void near__names_close(struct names *w);

/* The name of the function, which stays as long as the file is open, and how far behind its begin
 * the address stands; "?" and the address in the file where that is not known. */
const char *near__name_of(const struct names *w, uintptr_t address, uintptr_t *offset);

#endif
