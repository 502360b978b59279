/* SPDX-License-Identifier: MIT */
/* The text of a lock-order cycle. Code addresses have the form that addr2line(1) takes. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "locks/lockdep.h"
#include "locks/owner.h"

/* What does not fit is cut off. */
__attribute__((format(printf, 2, 3))) static void report_add(struct near__lockdep *d,
							     const char *format, ...)
{
	size_t left = sizeof(d->text) - d->used;
	va_list values;
	int n;

	va_start(values, format);
	n = vsnprintf(d->text + d->used, left, format, values);
	va_end(values);
	d->used += n < 0 ? 0 : (uint32_t)((size_t)n < left ? (size_t)n : left - 1);
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
	size_t left = sizeof(d->text) - 1 - d->used;
	ssize_t n = readlink("/proc/self/exe", d->text + d->used, left);

	if (n > 0)
		d->used += (uint32_t)n;
	else
		report_add(d, "PROGRAM");
}

/* `site` is a return address: the call is before it. */
static void add_location(struct near__lockdep *d, const void *site)
{
	struct location p = {.address = (uintptr_t)site - 1};

	dl_iterate_phdr(find_module, &p);
	if (p.module && *p.module)
		report_add(d, "%s", p.module);
	else if (p.module)
		add_program(d);
	report_add(d, "%s0x%" PRIxPTR "\n", p.module ? " " : "", p.address - p.base);
}

static void add_step(struct near__lockdep *d, const struct near__lockdep_step *step, bool now)
{
	if (step->owner == NEAR__LOCKDEP_SEVERAL)
		report_add(d, "nearcpu:   several threads");
	else
		report_add(d, "nearcpu:   thread %" PRIu32, step->owner >> NEAR__OWNER_SHIFT);
	report_add(d, " %s lock 0x%" PRIxPTR " and %s 0x%" PRIxPTR "\n", now ? "holds" : "held",
		   (uintptr_t)step->held.lock, now ? "wants" : "wanted",
		   (uintptr_t)step->wanted.lock);
	report_add(d, "nearcpu:     held:   addr2line -e ");
	add_location(d, step->held.site);
	report_add(d, "nearcpu:     wanted: addr2line -e ");
	add_location(d, step->wanted.site);
}

/* Returns errno, for report_end. */
static int report_begin(struct near__lockdep *d)
{
	near_lock_lock(&d->report_lock);
	return errno;
}

/* In one call, so that other threads do not write between the lines. By the system call itself, as
 * write() is a cancellation point. */
static void report_end(struct near__lockdep *d, int saved)
{
	syscall(SYS_write, 2, d->text, (size_t)d->used);
	d->used = 0;
	near_lock_unlock(&d->report_lock);
	errno = saved;
}

void near__lockdep_report(struct near__lockdep *d, const struct near__lockdep_cycle *cycle)
{
	unsigned n = cycle->length < NEAR__LOCKDEP_STEPS ? cycle->length : NEAR__LOCKDEP_STEPS;
	int saved = report_begin(d);

	report_add(d, "nearcpu: lock order: %u locks form a cycle%s\n", cycle->length,
		   cycle->alone ? " by one thread; two would deadlock"
				: ", in which threads can deadlock");
	for (unsigned i = 0; i < n; i++)
		add_step(d, &cycle->steps[i], i == 0);
	if (n < cycle->length)
		report_add(d, "nearcpu:   and so on\n");
	report_add(d, "nearcpu:   (unless memory of one was freed and used for another "
		      "without a destroy)\n");
	report_end(d, saved);
}

void near__lockdep_report_freed(struct near__lockdep *d, const struct near__lockdep_held *held)
{
	int saved = report_begin(d);

	report_add(d,
		   "nearcpu: lock order: lock 0x%" PRIxPTR " is freed while this thread holds it\n",
		   (uintptr_t)held->lock);
	report_add(d, "nearcpu:     held:   addr2line -e ");
	add_location(d, held->site);
	report_end(d, saved);
}
