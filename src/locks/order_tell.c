/* SPDX-License-Identifier: MIT */
/* A circle of locks as text, see order.h. Places are told as addr2line(1) takes them. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "order.h"
#include "owner.h"

static void add_bytes(struct near__order *o, const char *text, size_t n)
{
	size_t left = sizeof(o->text) - o->used;

	n = n < left ? n : left;
	memcpy(o->text + o->used, text, n);
	o->used += (uint32_t)n;
}

static void add(struct near__order *o, const char *text)
{
	add_bytes(o, text, strlen(text));
}

static void add_number(struct near__order *o, uintptr_t n, unsigned base)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	add_bytes(o, digits + at, sizeof(digits) - at);
}

static void add_hex(struct near__order *o, uintptr_t n)
{
	add(o, "0x");
	add_number(o, n, 16);
}

struct place {
	uintptr_t address, base;
	const char *module; /* NULL: none. "": the program */
};

static int find_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct place *p = arg;

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

static void add_program(struct near__order *o)
{
	size_t left = sizeof(o->text) - o->used;
	ssize_t n = readlink("/proc/self/exe", o->text + o->used, left);

	if (n > 0)
		o->used += (uint32_t)n;
	else
		add(o, "PROGRAM");
}

/* A return address: the call is before it. */
static void add_place(struct near__order *o, const void *site)
{
	struct place p = {.address = (uintptr_t)site - 1};

	dl_iterate_phdr(find_module, &p);
	if (p.module && *p.module)
		add(o, p.module);
	else if (p.module)
		add_program(o);
	add(o, p.module ? " " : "");
	add_hex(o, p.address - p.base);
}

static void add_step(struct near__order *o, const struct near__order_step *step, bool now)
{
	add(o, "nearcpu:   thread ");
	add_number(o, step->owner >> NEAR__OWNER_SHIFT, 10);
	add(o, now ? " holds lock " : " held lock ");
	add_hex(o, (uintptr_t)step->held.lock);
	add(o, now ? " and wants " : " and wanted ");
	add_hex(o, (uintptr_t)step->wanted.lock);
	add(o, "\nnearcpu:     held:   addr2line -e ");
	add_place(o, step->held.site);
	add(o, "\nnearcpu:     wanted: addr2line -e ");
	add_place(o, step->wanted.site);
	add(o, "\n");
}

/* At once, so that the lines stay together beside what other threads write. By the system call
 * itself, as write() is a cancellation point. */
static void flush(struct near__order *o)
{
	syscall(SYS_write, 2, o->text, (size_t)o->used);
	o->used = 0;
}

void near__order_tell(struct near__order *o, const struct near__order_circle *circle)
{
	unsigned n = circle->length < NEAR__ORDER_STEPS ? circle->length : NEAR__ORDER_STEPS;
	int saved = errno;

	near_lock_lock(&o->telling);
	add(o, "nearcpu: lock order: ");
	add_number(o, circle->length, 10);
	add(o, " locks are taken in a circle, in which threads can wait for each other for ever\n");
	for (unsigned i = 0; i < n; i++)
		add_step(o, &circle->steps[i], i == 0);
	if (n < circle->length)
		add(o, "nearcpu:   and so on\n");
	flush(o);
	near_lock_unlock(&o->telling);
	errno = saved;
}
