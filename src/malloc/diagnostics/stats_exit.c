/* SPDX-License-Identifier: MIT */
/* NEAR_CONF=malloc_stats:FILE: statistics at the end of the process, as JSON. A process that ends
 * by _exit or by a signal writes none. A process may have two heaps (api/own.c): that of
 * near_malloc has a file of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/identity.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/base/safe_file.h"
#include "malloc/diagnostics/malloc_stats.h"

/* A copy: programs overwrite their environment, and change their directory. */
static char wanted[PATH_MAX];
static uint32_t owner; /* the process, see base/identity.h */
static struct near__stats_base at_fork;
static bool forked;

void near__stats_name(char out[PATH_MAX], const struct near__conf_text *name, const char *suffix)
{
	size_t used = 0;
	int saved = errno;

	if (name->len && name->text[0] != '/') {
		long n = syscall(SYS_getcwd, out, PATH_MAX - 1);

		errno = saved;
		used = n > 1 ? (size_t)n : 0; /* the 0 at the end counts */
		if (used)
			out[used - 1] = '/';
	}
	if (!name->len || name->len + strlen(suffix) >= PATH_MAX - used) {
		out[0] = 0;
		return;
	}
	memcpy(out + used, name->text, name->len);
	strcpy(out + used + name->len, suffix);
}

void near__stats_begin(const char *suffix)
{
	near__stats_name(wanted, &near__malloc_conf.stats, suffix);
	if (wanted[0])
		owner = near__identity_begin();
}

/* Only a child that writes statistics needs this. */
void near__stats_fork_child(void)
{
	if (!wanted[0] || !strstr(wanted, "%p"))
		return;
	near__stats_take_base(&at_fork);
	forked = true;
}

static char *path_put(char *at, const char *from, size_t n)
{
	memcpy(at, from, n);
	return at + n;
}

/* "%p" becomes the process id. False: too long, or another process writes the file. */
static bool stats_make_path(char path[PATH_MAX])
{
	const char *mark = strstr(wanted, "%p");
	char digits[12], *first = digits + sizeof(digits);

	if (!mark) {
		path_put(path, wanted, sizeof(wanted));
		return near__identity_is(owner);
	}
	for (pid_t n = getpid(); n; n /= 10)
		*--first = (char)('0' + n % 10);
	if (strlen(wanted) + sizeof(digits) >= sizeof(wanted))
		return false;
	path = path_put(path, wanted, (size_t)(mark - wanted));
	path = path_put(path, first, (size_t)(digits + sizeof(digits) - first));
	path_put(path, mark + 2, strlen(mark + 2) + 1);
	return true;
}

static void stats_complain(const char *path, int error)
{
	struct near__out o;

	near__out_begin_fd(&o, 2);
	near__out_print(&o, "nearcpu-malloc: cannot write the statistics to %s%s\n", path,
			near__file_reason(error));
	near__out_end(&o);
}

__attribute__((destructor)) static void write_at_exit(void)
{
	char path[PATH_MAX];
	int fd, error, closed;
	struct near__out o;

	if (!wanted[0] || !stats_make_path(path))
		return;
	fd = error = near__file_replace(path);
	if (fd >= 0) {
		near__out_begin_fd(&o, fd);
		error = near__stats_json_since(forked ? &at_fork : NULL, &o);
		closed = near__file_close(fd);
		error = error ? error : closed;
	}
	if (error)
		stats_complain(path, error);
}
