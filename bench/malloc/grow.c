/* SPDX-License-Identifier: MIT */
/* grow: realloc. Several buffers grow side by side: half as arrays do, by half of what they have,
 * half as strings do, by just what is appended. */
#include "pattern.h"

#define BUFFERS 16

struct buffer {
	char *data;
	size_t size, room, limit;
};

static void begin(struct worker *w, struct buffer *b, bool string)
{
	*b = (struct buffer){.limit = random_log(w, string ? 5 : 8, string ? 12 : 19)};
}

static void end(struct worker *w, struct buffer *b)
{
	if (b->data && b->data[0] != 'b')
		die("realloc lost what was there");
	if (b->data)
		w_free(w, b->data);
}

static void append(struct worker *w, struct buffer *b, size_t n, bool string)
{
	if (b->size + n > b->room) {
		b->room = b->size + n + (string ? 1 : b->room / 2);
		b->data = w_realloc(w, b->data, b->room);
	}
	touch(b->data, b->size, b->size + n);
	b->data[0] = 'b';
	b->size += n;
}

static void work(struct worker *w)
{
	struct buffer buffers[BUFFERS];

	for (unsigned i = 0; i < BUFFERS; i++)
		begin(w, &buffers[i], i % 2);
	for (uint64_t i = 0; i < w->rounds; i++) {
		unsigned at = random_below(w, BUFFERS);
		struct buffer *b = &buffers[at];

		if (b->size >= b->limit) {
			end(w, b);
			begin(w, b, at % 2);
		}
		append(w, b, at % 2 ? random_between(w, 1, 64) : 16 + b->size / 8, at % 2);
	}
	meet(w);
	for (unsigned i = 0; i < BUFFERS; i++)
		end(w, &buffers[i]);
}

const struct pattern pattern_grow = {.name = "grow", .rounds = 3500000, .work = work};
