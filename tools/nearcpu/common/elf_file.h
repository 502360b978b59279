/* SPDX-License-Identifier: MIT */
/* elf_file: files mapped into memory, and their symbols. */
#ifndef NEARCPU_ELF_FILE_H
#define NEARCPU_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file in memory. A device or a pipe counts as empty. */
struct elf_file {
	const char *at;
	size_t size;
};

/* False: it cannot be read. */
bool elf_map(struct elf_file *f, const char *path);
bool elf_map_fd(struct elf_file *f, int fd);
void elf_unmap(const struct elf_file *f); /* also after these returned false */
bool elf_in_file(const struct elf_file *f, uint64_t offset, uint64_t size);

/* `room`: the bytes from the name to the end of the names, one of which may lack its final zero. */
typedef bool elf_symbol_test(const Elf64_Sym *symbol, const char *name, size_t room);

/* Whether a symbol of the file's table of this type (SHT_DYNSYM, SHT_SYMTAB) passes the test; -1:
 * it is not known. */
int elf_has_symbol(const char *path, unsigned type, elf_symbol_test *test);

#endif
