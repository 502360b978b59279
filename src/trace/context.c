/* SPDX-License-Identifier: MIT */
/* near_trace: the context of events; context.h has the argument. */
#define _GNU_SOURCE
#include "trace/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOM ((size_t)64 << 10)
#define RECORD ((size_t)256)
#define MOST_FIELDS 64
#define MOST_MORE 7

/* Of enum near_trace_with, from bit 0 on. */
static const char *const texts[] = {
	"bytes trace_id;bytes span_id",
	"string thread",
	"u32 pid;u64 pid_namespace;string cgroup",
	"array_x64 stack",
};
#define KINDS (sizeof(texts) / sizeof(*texts))

/* ---- variants ---- */

void *near__trace_map(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED)
		return at;
	near__trace_fail(-ENOMEM, "no memory");
	return NULL;
}

void *near__trace_room(size_t size)
{
	struct near__trace_triggers *all = near__trace.triggers;
	char *more;

	size = (size + 15) & ~(size_t)15;
	if (size > all->room_left) {
		more = near__trace_map(ROOM + size);
		if (!more)
			return NULL;
		all->room = more;
		all->room_left = ROOM + size;
	}
	all->room_left -= size;
	all->room += size;
	return all->room - size;
}

static char *fields_text(const struct near_trace_point *p, uint32_t what)
{
	size_t size = strlen(p->fields) + 2;
	char *text;

	for (unsigned i = 0; i < KINDS; i++)
		size += what >> i & 1 ? strlen(texts[i]) + 1 : 0;
	text = near__trace_room(size);
	if (!text)
		return NULL;
	strcpy(text, p->fields);
	for (unsigned i = 0; i < KINDS; i++)
		if (what >> i & 1)
			strcat(strcat(text, *text ? ";" : ""), texts[i]);
	return text;
}

/* Another one like this. False: no memory, or no id is left. */
static bool variant_add(const struct near__trace_variant *like)
{
	struct near__trace_variant *v = near__trace_room(sizeof(*v));

	if (!v || !like->point.fields || near__trace.points_known == NEAR__TRACE_IDS - 1)
		return false;
	*v = *like;
	v->point.head = UINT64_C(3) << NEAR__TRACE_WORDS_SHIFT |
			(uint64_t)++near__trace.points_known << NEAR__TRACE_ID_SHIFT;
	v->point.next = near__trace.variants;
	near__trace.variants = &v->point;
	return true;
}

static struct near__trace_variant *variant_find(const struct near_trace_point *p, uint32_t what)
{
	struct near__trace_variant new = {.of = p, .what = what};

	for (struct near_trace_point *at = near__trace.variants; at; at = at->next) {
		struct near__trace_variant *v = (struct near__trace_variant *)at;

		if (v->of == p && v->what == what)
			return v;
	}
	new.point.level = p->level;
	new.point.name = p->name;
	new.point.fields = fields_text(p, what);
	new.point.place = p->place;
	new.point.values = p->values;
	return variant_add(&new) ? (struct near__trace_variant *)near__trace.variants : NULL;
}

struct near_trace_point *near__trace_variant_of(const struct near_trace_point *p, uint32_t what)
{
	struct near__trace_variant *v = variant_find(p, what);

	if (!v || !near__trace_write_points(near__trace.current, near__trace.variants))
		return NULL;
	/* Release: pairs with the acquire in near__trace_write. */
	__atomic_store_n(&v->point.enabled, near__trace.current->clock, __ATOMIC_RELEASE);
	return &v->point;
}

/* ---- objects ---- */

static void object_add(const char *line)
{
	struct near__trace_variant new = {.point = {.name = NEAR__TRACE_OBJECT, .fields = ""}};
	const struct near_trace_point *p;
	char *place;

	near__trace_lock();
	for (p = near__trace.variants; p && strcmp(p->place, line) != 0;)
		p = p->next;
	place = p ? NULL : near__trace_room(strlen(line) + 1);
	if (place) {
		new.point.place = strcpy(place, line);
		variant_add(&new);
	}
	if (near__trace.current && near__trace_is_own())
		near__trace_write_points(near__trace.current, near__trace.variants);
	near_lock_unlock(&near__trace.lock);
}

static void search_objects(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];

	while (maps && fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = 0;
		if (strstr(line, " r-xp ") && strchr(line, '/'))
			object_add(line);
	}
	if (maps)
		fclose(maps);
}

/* ---- patterns ---- */

int near__trace_context_add(const char *pattern, unsigned what)
{
	struct near__trace_triggers *all = near__trace.triggers;
	uint32_t n = 0;

	if (!*pattern || strlen(pattern) >= NEAR__TRACE_PATTERN)
		return near__trace_fail(-EINVAL, "a pattern has 1 to 95 characters");
	if (what >> KINDS)
		return near__trace_fail(-EINVAL, "there is no such context");
	for (uint32_t i = 0; i < all->contexts; i++)
		if (strcmp(pattern, "*") != 0 && strcmp(all->context[i].pattern, pattern) != 0)
			all->context[n++] = all->context[i];
	all->contexts = n;
	if (n == NEAR__TRACE_CONTEXTS)
		return near__trace_fail(-E2BIG, "there are 8 patterns since the last `*`");
	strcpy(all->context[n].pattern, pattern);
	all->context[n].what = what;
	if (what & NEAR_TRACE_WITH_STACK)
		__atomic_store_n(&near__trace.find_objects, search_objects, __ATOMIC_RELAXED);
	all->contexts++;
	return 0;
}

uint32_t near__trace_context_of(const struct near_trace_point *p)
{
	const struct near__trace_triggers *all = near__trace.triggers;

	for (uint32_t i = all->contexts; i-- > 0;)
		if (near__trace_match(all->context[i].pattern, p->name))
			return all->context[i].what;
	return 0;
}

/* ---- the process ---- */

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Of the line "0::/...", which version 2 has; else of the first one. */
static void cgroup_read(char *to, size_t size)
{
	char text[4096] = "", *line;
	int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	line = strstr(text, "0::");
	line = strchr(line ? line : text, '/');
	n = line ? (ssize_t)strcspn(line, "\n") : 0;
	n = n < (ssize_t)size ? n : (ssize_t)size - 1;
	memcpy(to, line ? line : "", (size_t)n);
	to[n] = 0;
}

void near__trace_context_read(void)
{
	struct near__trace_triggers *all = near__trace.triggers;
	uint32_t pid = (uint32_t)getpid();

	if (!all || all->pid == pid)
		return;
	all->pid = pid;
	all->pid_namespace = pid_namespace();
	cgroup_read(all->cgroup, sizeof(all->cgroup));
}

/* ---- events ---- */

int near_trace_set_ids(const void *trace_id, const void *span_id)
{
	struct near__trace_thread *mine = near__trace_thread_own();

	if (!mine)
		return -ENOMEM;
	__atomic_store_n(&mine->ids, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!trace_id)
		return 0;
	memcpy(mine->trace_id, trace_id, sizeof(mine->trace_id));
	if (span_id)
		memcpy(mine->span_id, span_id, sizeof(mine->span_id));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&mine->ids, span_id ? 2 : 1, __ATOMIC_RELAXED);
	return 0;
}

static unsigned add_ids(struct near__trace_piece *to)
{
	const struct near__trace_thread *mine = near__trace_thread_peek();
	uint32_t ids = __atomic_load_n(&mine->ids, __ATOMIC_RELAXED);

	to[0] = (struct near__trace_piece){mine->trace_id, ids > 0 ? sizeof(mine->trace_id) : 0, 1};
	to[1] = (struct near__trace_piece){mine->span_id, ids > 1 ? sizeof(mine->span_id) : 0, 1};
	return 2;
}

void near__trace_write_context(const struct near__trace_bound *b, const void *payload,
			       const struct near__trace_piece *pieces, const void *frame)
{
	const struct near__trace_triggers *all = near__trace.triggers;
	struct near__trace_piece all_pieces[MOST_FIELDS + MOST_MORE];
	unsigned n = pieces ? b->fields : 1;
	uint64_t what = b->what, stack[RECORD / sizeof(uint64_t)];
	size_t used = sizeof(uint16_t), depth; /* with lengths */
	char name[17] = "";

	if (pieces)
		memcpy(all_pieces, pieces, n * sizeof(*pieces));
	else
		all_pieces[0] = (struct near__trace_piece){payload, b->bytes, 0};
	if (what & NEAR_TRACE_WITH_IDS)
		n += add_ids(&all_pieces[n]);
	if (what & NEAR_TRACE_WITH_THREAD) {
		prctl(PR_GET_NAME, name);
		all_pieces[n++] = (struct near__trace_piece){name, strlen(name), 1};
	}
	if (what & NEAR_TRACE_WITH_PROCESS) {
		all_pieces[n++] = (struct near__trace_piece){&all->pid, sizeof(all->pid), 0};
		all_pieces[n++] = (struct near__trace_piece){&all->pid_namespace,
							     sizeof(all->pid_namespace), 0};
		all_pieces[n++] = (struct near__trace_piece){all->cgroup, strlen(all->cgroup), 1};
	}
	if (what & NEAR_TRACE_WITH_STACK) {
		/* The frames that the record has room for: a chain would be several records. */
		for (unsigned i = 0; i < n; i++)
			used += all_pieces[i].size + (all_pieces[i].element ? sizeof(uint16_t) : 0);
		depth = used < RECORD ? (RECORD - used) / sizeof(*stack) : 0;
		depth = near__trace_stack(stack, depth, frame);
		all_pieces[n++] =
			(struct near__trace_piece){stack, depth * sizeof(*stack), sizeof(*stack)};
	}
	near__trace_write_pieces(b->variant, all_pieces, n);
}
