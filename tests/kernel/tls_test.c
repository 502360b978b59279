/* SPDX-License-Identifier: MIT */
/* How much thread-local storage the library takes: of all that is loaded by dlopen() together there
 * are less than 2 KiB. */
#include "unit.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>

#define MOST 64u /* bytes of one library, or of one copy of the static one */

/* Of a file's PT_TLS; an object of another kind than ours has none. */
static size_t tls_of(const char *path)
{
	ElfW(Ehdr) header;
	ElfW(Phdr) segment;
	size_t size = 0;
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, &header, sizeof(header)), sizeof(header));
	assert_memory_equal(header.e_ident, ELFMAG, SELFMAG);
	for (unsigned i = 0; i < header.e_phnum; i++) {
		off_t at = (off_t)(header.e_phoff + i * sizeof(segment));

		assert_int_equal(pread(fd, &segment, sizeof(segment), at), sizeof(segment));
		if (segment.p_type == PT_TLS)
			size = segment.p_memsz;
	}
	close(fd);
	return size;
}

static void each_library_takes_little(void **state)
{
	static const char *const paths[] = {TLS_LIBRARIES};

	assert_true(LENGTH(paths) > 1);
	for (size_t i = 0; i < LENGTH(paths); i++)
		if (tls_of(paths[i]) > MOST)
			fail_msg("%s takes %zu bytes of thread-local storage", paths[i],
				 tls_of(paths[i]));
}

static void each_copy_takes_little(void **state)
{
	assert_in_range(tls_of(TLS_PLUGIN), 1, MOST);
	assert_in_range(tls_of(TLS_SMALL_PLUGIN), 1, MOST / 2);
}

/* The loader takes each copy for another library. */
static void copy_file(const char *from, const char *to)
{
	char data[1 << 16];
	ssize_t n;
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, data, sizeof(data))) > 0)
		assert_int_equal(write(out, data, (size_t)n), n);
	close(in);
	close(out);
}

#define PLUGINS 16

static void many_plugins_contain_it(void **state)
{
	char folder[] = "/tmp/near_tls_XXXXXX", path[64];

	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < PLUGINS; i++) {
		int (*use)(int n) = NULL;
		void *handle;

		snprintf(path, sizeof(path), "%s/%d.so", folder, i);
		copy_file(TLS_PLUGIN, path);
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		unlink(path);
		if (!handle)
			fail_msg("plugin %d: %s", i, dlerror());
		*(void **)&use = dlsym(handle, "use");
		assert_int_equal(use(i), i + 1);
	}
	rmdir(folder);
}

UNIT_MAIN(each_library_takes_little, each_copy_takes_little, many_plugins_contain_it)
