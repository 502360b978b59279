/* SPDX-License-Identifier: MIT */
/* The text of a lock-order cycle. Code addresses have the form that addr2line(1) takes. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockdep.h"
#include "owner.h"

static void add_bytes(struct near__lockdep *d, const char *text, size_t n)
{
	size_t left = sizeof(d->text) - d->used;

	n = n < left ? n : left;
	memcpy(d->text + d->used, text, n);
	d->used += (uint32_t)n;
}

static void add(struct near__lockdep *d, const char *text)
{
	add_bytes(d, text, strlen(text));
}

static void add_number(struct near__lockdep *d, uintptr_t n, unsigned base)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	add_bytes(d, digits + at, sizeof(digits) - at);
}

static void add_hex(struct near__lockdep *d, uintptr_t n)
{
	add(d, "0x");
	add_number(d, n, 16);
}

struct location {
	uintptr_t address, base;
	const char *module; /* NULL: none. "": the program */
};

static int find_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct location *p = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type != PT_LOAD || p->address - info->dlpi_addr - h->p_vaddr >= h->p_memsz)
			continue;
		p->base = info->dlpi_addr;
		p->module = info->dlpi_name;
		return 1;
	}
	return 0;
}

static void add_program(struct near__lockdep *d)
{
	size_t left = sizeof(d->text) - d->used;
	ssize_t n = readlink("/proc/self/exe", d->text + d->used, left);

	if (n > 0)
		d->used += (uint32_t)n;
	else
		add(d, "PROGRAM");
}

/* `site` is a return address: the call is before it. */
static void add_location(struct near__lockdep *d, const void *site)
{
	struct location p = {.address = (uintptr_t)site - 1};

	dl_iterate_phdr(find_module, &p);
	if (p.module && *p.module)
		add(d, p.module);
	else if (p.module)
		add_program(d);
	add(d, p.module ? " " : "");
	add_hex(d, p.address - p.base);
}

static void add_step(struct near__lockdep *d, const struct near__lockdep_step *step, bool now)
{
	add(d, "nearcpu:   thread ");
	add_number(d, step->owner >> NEAR__OWNER_SHIFT, 10);
	add(d, now ? " holds lock " : " held lock ");
	add_hex(d, (uintptr_t)step->held.lock);
	add(d, now ? " and wants " : " and wanted ");
	add_hex(d, (uintptr_t)step->wanted.lock);
	add(d, "\nnearcpu:     held:   addr2line -e ");
	add_location(d, step->held.site);
	add(d, "\nnearcpu:     wanted: addr2line -e ");
	add_location(d, step->wanted.site);
	add(d, "\n");
}

/* In one call, so that other threads do not write between the lines. By the system call itself, as
 * write() is a cancellation point. */
static void flush(struct near__lockdep *d)
{
	syscall(SYS_write, 2, d->text, (size_t)d->used);
	d->used = 0;
}

void near__lockdep_report(struct near__lockdep *d, const struct near__lockdep_cycle *cycle)
{
	unsigned n = cycle->length < NEAR__LOCKDEP_STEPS ? cycle->length : NEAR__LOCKDEP_STEPS;
	int saved = errno;

	near_lock_lock(&d->report_lock);
	add(d, "nearcpu: lock order: ");
	add_number(d, cycle->length, 10);
	add(d, " locks form a cycle, in which threads can deadlock\n");
	for (unsigned i = 0; i < n; i++)
		add_step(d, &cycle->steps[i], i == 0);
	if (n < cycle->length)
		add(d, "nearcpu:   and so on\n");
	flush(d);
	near_lock_unlock(&d->report_lock);
	errno = saved;
}
