/* SPDX-License-Identifier: MIT */
/* What was seen: processes, threads, the ids that they used, and when. */
#include "common/memory.h"
#include "ids/ids.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether it is new. */
static bool insert(struct id_set *set, uint32_t id)
{
	unsigned low = 0, high = set->count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (set->ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < set->count && set->ids[low] == id)
		return false;
	grow(&set->ids, set->count, sizeof(*set->ids));
	memmove(set->ids + low + 1, set->ids + low, (set->count - low) * sizeof(*set->ids));
	set->ids[low] = id;
	set->count++;
	return true;
}

/* ---- copies ---- */

static void raise_to(unsigned *most, unsigned n)
{
	if (*most < n)
		*most = n;
}

static void ids_count(struct ids *f, struct ids_process *p, enum ids_data kind, unsigned n)
{
	p->now[kind] += n;
	f->now[kind] += n;
	raise_to(&p->most[kind], p->now[kind]);
	raise_to(&f->most[kind], f->now[kind]);
	raise_to(&f->largest[kind], p->now[kind]);
}

/* Of a place that the process had not used yet. */
static void add_ids(struct ids *f, struct ids_process *p, const struct ids_place *place)
{
	if (place->cpu >= 0 && insert(&p->cpus, (uint32_t)place->cpu)) {
		insert(&f->cpus, (uint32_t)place->cpu);
		ids_count(f, p, IDS_CPUS, 1);
	}
	if (place->node >= 0 && insert(&p->nodes, (uint32_t)place->node))
		insert(&f->nodes, (uint32_t)place->node);
	if (place->cid < 0)
		return;
	insert(&p->cids, (uint32_t)place->cid);
	if (p->now[IDS_CIDS] <= (unsigned)place->cid)
		ids_count(f, p, IDS_CIDS, (unsigned)place->cid + 1 - p->now[IDS_CIDS]);
	if (place->node >= 0 && insert(&p->pairs, (uint32_t)(place->node << 16 | place->cid)))
		ids_count(f, p, IDS_PAIRS, 1);
}

/* ---- processes ---- */

static struct ids_process *add_process(struct ids *f, pid_t pid)
{
	struct ids_process *p = allocate_zeros(1, sizeof(*p));

	*p = (struct ids_process){.pid = pid, .kept = f->process_count < IDS_MOST_PROCESSES};
	ids_read_name(pid, pid, p->name);
	if (p->kept) {
		p->index = f->process_count;
		APPEND(f->processes, f->process_count, p);
	}
	f->process_total++;
	ids_count(f, p, IDS_POSSIBLE, f->machine.possible.count);
	return p;
}

static struct ids_process *process_of(struct ids *f, pid_t tid)
{
	pid_t pid = ids_read_process(tid);

	for (unsigned i = 0; i < f->thread_count; i++)
		if (f->threads[i]->process->pid == pid)
			return f->threads[i]->process;
	return add_process(f, pid);
}

static void end_process(struct ids *f, struct ids_process *p)
{
	for (int i = 0; i < IDS_KINDS; i++)
		f->now[i] -= p->now[i];
	if (p->kept)
		return;
	f->others++;
	free(p->cids.ids);
	free(p->cpus.ids);
	free(p->nodes.ids);
	free(p->pairs.ids);
	free(p);
}

/* ---- threads ---- */

struct ids_thread *ids_find(const struct ids *f, pid_t tid)
{
	for (unsigned i = 0; i < f->thread_count; i++)
		if (f->tids[i] == tid)
			return f->threads[i];
	return NULL;
}

static uint32_t add_lane(struct ids *f, pid_t tid, const struct ids_process *p)
{
	if (!p->kept || f->lane_count == IDS_MOST_LANES)
		return UINT32_MAX;
	APPEND(f->lanes, f->lane_count, (struct ids_lane){.tid = tid, .process = p->index});
	return f->lane_count - 1;
}

struct ids_thread *ids_add_thread(struct ids *f, pid_t tid)
{
	struct ids_thread *t = allocate_zeros(1, sizeof(*t));

	*t = (struct ids_thread){.tid = tid, .run_fd = -1, .born = ids_now(f)};
	t->process = process_of(f, tid);
	t->span.lane = add_lane(f, tid, t->process);
	grow(&f->tids, f->thread_count, sizeof(*f->tids));
	f->tids[f->thread_count] = tid;
	APPEND(f->threads, f->thread_count, t);
	ids_count(f, t->process, IDS_ALIVE, 1);
	ids_count(f, t->process, IDS_EVER, 1);
	f->thread_total++;
	return t;
}

void ids_executed(struct ids *f, struct ids_thread *t, pid_t pid)
{
	struct ids_thread *first = ids_find(f, pid);

	t->tid = pid;
	if (first && first != t)
		ids_end_thread(f, first);
	for (unsigned i = 0; i < f->thread_count; i++)
		if (f->threads[i] == t)
			f->tids[i] = pid;
	t->area = 0;
	t->tries = 0;
	if (t->run_fd >= 0)
		close(t->run_fd);
	t->run_fd = -1;
	ids_read_name(pid, pid, t->process->name);
}

/* ---- spans ---- */

static bool same_place(const struct ids_place *a, const struct ids_place *b)
{
	return a->cpu == b->cpu && a->cid == b->cid && a->node == b->node;
}

/* Makes of spans that are less than the gap apart one, and within a gap of time keeps of each lane
 * one: then their number depends on lanes and time alone. */
static void merge(struct ids *f)
{
	uint32_t *last = allocate_zeros(f->lane_count, sizeof(*last));
	unsigned count = 0;

	f->gap *= 2;
	memset(last, -1, f->lane_count * sizeof(*last));
	for (unsigned i = 0; i < f->span_count; i++) {
		struct ids_span *s = &f->spans[i];
		uint32_t k = last[s->lane];
		struct ids_span *before = k == UINT32_MAX ? NULL : &f->spans[k];
		bool near = before && s->begin <= before->end + f->gap;

		if (near && (same_place(&before->place, &s->place) ||
			     before->begin / f->gap == s->end / f->gap)) {
			before->end = s->end;
			continue;
		}
		last[s->lane] = count;
		f->spans[count++] = *s;
	}
	f->span_count = count;
	free(last);
}

static void add_span(struct ids *f, const struct ids_span *s)
{
	if (s->begin == s->end || s->lane == UINT32_MAX)
		return;
	/* An eighth becomes free, so that few merges are needed. */
	while (f->span_count == IDS_MOST_SPANS) {
		merge(f);
		while (f->span_count > IDS_MOST_SPANS / 8 * 7)
			merge(f);
	}
	APPEND(f->spans, f->span_count, *s);
}

void ids_add_place(struct ids *f, struct ids_thread *t, uint64_t begin, uint64_t end,
		   const struct ids_place *place)
{
	struct ids_span *s = &t->span;

	if (s->begin != s->end && same_place(&s->place, place) && begin <= s->end + f->gap) {
		s->end = end;
		return;
	}
	add_span(f, s);
	s->begin = begin > s->end ? begin : s->end;
	s->end = end > s->begin ? end : s->begin + 1;
	s->place = *place;
	add_ids(f, t->process, place);
}

void ids_end_thread(struct ids *f, struct ids_thread *t)
{
	struct ids_process *p = t->process;
	unsigned i = 0;

	if (t->span.lane != UINT32_MAX)
		ids_read_name(p->pid, t->tid, f->lanes[t->span.lane].name);
	add_span(f, &t->span);
	f->without_area += !t->area;
	while (f->threads[i] != t)
		i++;
	f->threads[i] = f->threads[--f->thread_count];
	f->tids[i] = f->tids[f->thread_count];
	ids_count(f, p, IDS_ALIVE, -1u);
	if (!p->now[IDS_ALIVE])
		end_process(f, p);
	if (t->run_fd >= 0)
		close(t->run_fd);
	free(t);
}
