/* SPDX-License-Identifier: MIT */
/* A ring, by sub-buffers, while its program writes it, or after. */
#include "common/memory.h"
#include "trace/reader.h"

#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SUB NEAR__TRACE_SUB_SIZE
#define HEADER_AT (NEAR__TRACE_PAGE - sizeof(struct near__trace_ring))
#define LEAST_WORDS 3
#define MOST_BYTES (NEAR__TRACE_MAX_WORDS * sizeof(uint64_t))

static unsigned part_of(uint64_t head, unsigned shift, unsigned bits)
{
	return (unsigned)(head >> shift & ((1u << bits) - 1));
}

static bool is_used(const struct trace_file *f, unsigned ring)
{
	uint64_t word = 0;

	trace_read(f, &word, f->used_at + ring / 64 * sizeof(word), sizeof(word));
	return word >> ring % 64 & 1;
}

bool trace_ring_open(struct trace_ring *r, struct trace_file *f, unsigned index)
{
	uint64_t at = f->ring_at ? f->ring_at[index] : f->rings_at + index * f->session.ring_stride;

	*r = (struct trace_ring){
		.file = f, .index = index, .at = at + HEADER_AT, .data_at = at + NEAR__TRACE_PAGE};
	return trace_ring_update(r);
}

bool trace_ring_update(struct trace_ring *r)
{
	struct trace_file *f = r->file;
	struct near__trace_ring h;
	uint64_t subs, first;

	if (trace_read(f, &h, r->at, sizeof(h)) != sizeof(h)) {
		f->lost[LOST_RINGS] += is_used(f, r->index);
		return false;
	}
	if (!h.position && !h.discarded)
		return false;
	f->lost[LOST_DISCARDED] += h.discarded - r->discarded;
	r->size = f->ring_at ? h.mask + 1 : f->session.ring_size;
	r->end = h.position & ~UINT64_C(7);
	r->discarded = h.discarded;
	subs = r->size / SUB;
	first = r->end / SUB >= subs ? (r->end / SUB - subs + 1) * SUB : 0;
	if (first > r->next) {
		/* Of a stream other files have the older ones. */
		if (f->left || f->session.mode != NEAR__TRACE_STREAM)
			f->lost[f->left ? LOST_OVERTAKEN : LOST_OVERWRITTEN] += first - r->next;
		r->next = first;
	}
	r->read = h.read & ~UINT64_C(7);
	/* The data are read after the position: pairs with the release of the ring's commit. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!r->buffer)
		r->buffer = allocate_zeros(SUB, 1);
	return true;
}

/* The position may be behind the end that the ring had when it was opened: a stream has moved more
 * records since. If it is more than the ring's size behind, all records are overwritten, or the
 * file is damaged. */
void trace_ring_skip(struct trace_ring *r, uint64_t position)
{
	if (position > r->end && position - r->end <= r->size)
		position = r->end;
	if (position > r->next && position <= r->end)
		r->next = position;
}

/* Whether the writer has come to the sub-buffer that begins at `position` again. The barrier in its
 * process orders the position before the data that the copy may have seen. */
static bool is_overtaken(struct trace_ring *r, uint64_t position)
{
	uint64_t now;

	if (r->file->session.ended)
		return false;
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	if (trace_read(r->file, &now, r->at, sizeof(now)) != sizeof(now))
		return false;
	return now > r->end && now / SUB >= position / SUB + r->size / SUB;
}

/* The next sub-buffer that is whole. */
static bool ring_fill(struct trace_ring *r)
{
	while (r->next < r->end) {
		uint64_t begin = r->next, left = r->end - begin;
		size_t size = SUB - begin % SUB, n;

		if (left < size)
			size = left;

		n = trace_read(r->file, r->buffer, r->data_at + begin % r->size, size);
		r->next += size;
		if (is_overtaken(r, begin)) {
			r->file->lost[LOST_OVERTAKEN] += size;
			continue;
		}
		r->file->lost[LOST_MISSING] += size - n;
		r->begin = 0;
		r->limit = (uint32_t)(n & ~(size_t)7);
		r->is_last = n == size && r->next % SUB == 0;
		if (r->limit)
			return true;
	}
	return false;
}

static uint64_t word(const struct trace_ring *r, uint32_t at)
{
	uint64_t w;

	memcpy(&w, r->buffer + at, sizeof(w));
	return w;
}

/* The size of the record there; 0: there is none. */
static uint32_t record_size(const struct trace_ring *r, uint32_t at)
{
	uint64_t head = word(r, at);
	unsigned words = part_of(head, NEAR__TRACE_WORDS_SHIFT, 6);
	unsigned flags = part_of(head, NEAR__TRACE_FLAGS_SHIFT, 6);

	if (words < LEAST_WORDS || words > NEAR__TRACE_MAX_WORDS || words * 8 > r->limit - at ||
	    flags > (NEAR__TRACE_CUT | NEAR__TRACE_PART) ||
	    !part_of(head, NEAR__TRACE_ID_SHIFT, 16))
		return 0;
	if (word(r, at + 8) < r->file->least || word(r, at + 8) > r->file->most)
		return 0;
	return words * 8;
}

/* The head of 0 that ends a sub-buffer, since no record needs more room than what is left. */
static bool is_end_mark(const struct trace_ring *r, uint32_t at)
{
	return word(r, at) == 0 && r->limit - at <= MOST_BYTES && r->is_last;
}

/* A sub-buffer that the writer has left out, as the disk was full. */
static bool is_skipped(const struct trace_ring *r, uint32_t at)
{
	return at == 0 && r->is_last && r->limit == SUB && !word(r, 0) &&
	       memcmp(r->buffer, r->buffer + 8, SUB - 8) == 0;
}

static bool is_dropped(const struct trace_ring *r, uint32_t at)
{
	return at == 0 && word(r, at) == NEAR__TRACE_DROPPED;
}

/* Where reading may continue after damage: at a record of a known tracepoint which another record
 * or the end follows. */
static bool is_plausible(const struct trace_ring *r, uint32_t at)
{
	uint32_t size = record_size(r, at), next = at + size;

	return size && r->file->owner->points[part_of(word(r, at), NEAR__TRACE_ID_SHIFT, 16)] &&
	       (next == r->limit || is_end_mark(r, next) || record_size(r, next));
}

static void skip_damage(struct trace_ring *r)
{
	uint32_t at = r->begin;

	do
		at += 8;
	while (at < r->limit && !is_plausible(r, at));
	r->file->lost[LOST_DAMAGED] += at - r->begin;
	r->begin = at;
}

static bool take_record(struct trace_ring *r, uint32_t size)
{
	uint64_t ns = trace_ns(r->file, word(r, r->begin + 8));

	if (ns < r->ns) {
		r->file->lost[LOST_RAISED]++;
		ns = r->ns;
	}
	r->ns = ns;
	r->record = (const uint64_t *)(r->buffer + r->begin);
	r->last_cpu = part_of(*r->record, NEAR__TRACE_CPU_SHIFT, 14);
	r->begin += size;
	return true;
}

bool trace_ring_next(struct trace_ring *r)
{
	for (;;) {
		uint32_t size;

		r->record = NULL;
		if (r->begin >= r->limit && !ring_fill(r))
			return false;
		size = r->limit - r->begin >= 16 ? record_size(r, r->begin) : 0;
		if (size)
			return take_record(r, size);
		if (is_dropped(r, r->begin))
			r->file->lost[LOST_OVERTAKEN] += r->limit;
		if (is_dropped(r, r->begin) || is_end_mark(r, r->begin) || is_skipped(r, r->begin))
			r->begin = r->limit;
		else
			skip_damage(r);
	}
}
