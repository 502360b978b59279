/* SPDX-License-Identifier: MIT */
/* What a sequence reads and writes: that it is armed and finds its slot inside, that its commit is
 * a store and the last instruction, and what it stores before.
 *
 * A store before the commit is a fault where an abort shows: the sequence read that word before and
 * changes it, or stores to it again at the end. It is a warning if it goes to a fixed place of the
 * slot, which others may read. A store to an address from an input or from a word of the slot
 * counts as one to private memory: a node that is not linked yet, the entry after the last. */
#include "check/array.h"
#include "check/sequence.h"

struct data {
	struct checker *c;
	struct sequence *s;
	const struct access *commit;
	bool commits_behind;  /* the instruction at the end stores to the slot */
	bool address_outside; /* the commit goes to an address like that of its slot, made before */
	bool value_outside;   /* it stores what was read there before */
	struct access *inside; /* accesses of the sequence, in order */
	size_t inside_count, room;
	unsigned pass;
};

static bool same(struct value a, struct value b)
{
	return a.name == b.name && a.plus == b.plus;
}

static bool is_inside(const struct data *d, const struct access *a)
{
	return a->insn->address >= d->s->start && a->insn->address < d->s->end;
}

/* The store of the descriptor's address. The last one before the start counts, or one inside. */
static void see_arm(struct data *d, const struct access *a)
{
	/* Compilers put the address on the stack, too. */
	if (a->address.name == flow_stack(d->c->flow) || a->insn->address >= d->s->end)
		return;
	if (!a->is_store || a->size != 8 || a->value.name != NAME_CONST ||
	    (uint64_t)a->value.plus != d->s->descriptor->address)
		return;
	d->s->arm = a->insn->address;
	d->s->area = a->address;
	d->s->area.plus = (int64_t)((uint64_t)a->address.plus - AREA_CS);
	d->s->area_known = true;
	/* What is at a fixed distance from the thread pointer is there in all of the file. */
	if (a->address.name == NAME_THREAD) {
		d->c->area = d->s->area;
		d->c->area_known = true;
	}
}

static void see_kernel_field(struct data *d, const struct access *a)
{
	int64_t from = (int64_t)((uint64_t)a->address.plus - (uint64_t)d->s->area.plus);
	int64_t to = from + (a->size ? a->size : 1);
	bool ids = (from < AREA_CS && to > 0) || (from < AREA_SLICE && to > AREA_FLAGS);

	if (!ids || !a->is_store)
		return;
	add_problem(d->s,
		    a->stores_const && !is_inside(d, a) ? RULE_KERNEL_FIELD_RESET
							: RULE_KERNEL_FIELD,
		    a->insn->address);
}

static void visit(void *context, struct flow *flow, const struct access *a)
{
	struct data *d = context;

	if (d->pass == 1)
		see_arm(d, a);
	if (d->pass == 3 && a->insn == d->commit->insn && a->is_store) {
		d->value_outside = a->value_from & FROM_COMMITTED && !a->is_load;
		d->address_outside = !(a->address_from & (FROM_INDEX | FROM_DATA)) &&
				     flow_has_own(flow, a->address);
	}
	if (d->pass != 2)
		return;
	if (a->is_area)
		see_kernel_field(d, a);
	if (a->is_store && a->insn->address == d->s->end && !a->is_area &&
	    a->address_from & FROM_INDEX)
		d->commits_behind = true;
	if (is_inside(d, a) && d->inside_count < d->room)
		d->inside[d->inside_count++] = *a;
}

static bool is_private(const struct data *d, const struct access *a)
{
	return a->address.name == flow_stack(d->c->flow) || a->is_area;
}

static void find_commit(struct data *d)
{
	const struct sequence *s = d->s;
	const struct insn *last = s->insn_count > s->first ? &s->insns[s->insn_count - 1] : NULL;
	bool any = false;

	if (!last || last->address + last->size != s->end)
		return; /* reported already */
	for (size_t i = 0; i < d->inside_count; i++) {
		const struct access *a = &d->inside[i];

		if (!a->is_store || (is_private(d, a) && a->insn != last))
			continue;
		/* The last store is what was meant, where it is not the last instruction. */
		any |= !is_private(d, a);
		d->commit = a;
	}
	if (last->kind & INSN_STORE)
		return;
	add_problem(d->s,
		    any                 ? RULE_COMMIT_NOT_LAST
		    : d->commits_behind ? RULE_COMMIT_OUTSIDE
					: RULE_COMMIT_NONE,
		    last->address);
}

static bool read_before(const struct data *d, size_t at, struct value *value)
{
	const struct access *a = &d->inside[at];

	for (size_t i = 0; i < at; i++) {
		if (d->inside[i].is_load && same(d->inside[i].address, a->address)) {
			*value = d->inside[i].value;
			return true;
		}
	}
	return false;
}

static bool read_after(const struct data *d, size_t at)
{
	const struct access *a = &d->inside[at];

	for (size_t i = at + 1; i < d->inside_count && i < at + 256; i++)
		if (d->inside[i].is_load && d->inside[i].insn != a->insn &&
		    same(d->inside[i].address, a->address))
			return true;
	return false;
}

static bool is_fixed_place(const struct access *a)
{
	return a->address_from & FROM_INDEX && !(a->address_from & FROM_DATA);
}

static void check_early_store(struct data *d, size_t at)
{
	const struct access *a = &d->inside[at];
	struct value before;
	bool was_read = a->is_load || read_before(d, at, &before);
	/* A change of what was read, not a value from elsewhere. */
	bool changed = a->is_load || (was_read && !same(a->value, before) &&
				      (a->value.name == before.name || a->value_from & FROM_DATA));

	if (d->commit && same(a->address, d->commit->address))
		add_problem(d->s, RULE_COMMIT_TWICE, a->insn->address);
	else if (changed)
		add_problem(d->s, RULE_EARLY_UPDATE, a->insn->address);
	else if (was_read || is_fixed_place(a))
		add_problem(d->s, RULE_EARLY_STORE, a->insn->address);
}

static void check_stores(struct data *d)
{
	for (size_t i = 0; i < d->inside_count; i++) {
		const struct access *a = &d->inside[i];

		if (!a->is_store || a->is_area || (d->commit && a->insn == d->commit->insn))
			continue;
		if (read_after(d, i))
			add_problem(d->s, RULE_READS_OWN_STORE, a->insn->address);
		if (!is_private(d, a) && !(a->insn->kind & INSN_ATOMIC))
			check_early_store(d, i);
	}
}

static void check_index(struct data *d)
{
	uint64_t commit = d->commit ? d->commit->insn->address : 0;

	if (d->c->flow->saw_index)
		return;
	if (!d->s->area_known)
		add_problem(d->s, RULE_INDEX_UNSEEN, 0);
	else if (d->commit && d->commit->address_from & FROM_INDEX_BEFORE)
		add_problem(d->s, RULE_INDEX_OUTSIDE, commit);
	else
		add_problem(d->s, RULE_INDEX_MISSING, 0);
}

/* A sequence that loads the word again has seen what became of it; one that checks a mark over the
 * edge of the area has seen that no other thread ran in between. */
static void check_outside(struct data *d)
{
	const struct access *a = d->commit;

	if (d->address_outside)
		add_problem(d->s, RULE_INDEX_OUTSIDE, a->insn->address);
	d->value_outside &= !d->c->flow->saw_overlay;
	for (size_t i = 0; i < d->inside_count && d->value_outside; i++)
		if (d->inside[i].is_load && same(d->inside[i].address, a->address))
			d->value_outside = false;
	if (d->value_outside)
		add_problem(d->s, RULE_VALUE_OUTSIDE, a->insn->address);
}

static void data_run(struct data *d)
{
	struct value at;
	struct flow_run r = {.insns = d->s->insns,
			     .count = d->s->insn_count + d->s->has_next,
			     .start = d->s->start,
			     .end = d->s->end,
			     .visit = visit,
			     .context = d};

	d->pass = 1;
	flow_run(d->c->flow, &r);
	if (!d->s->area_known && d->c->area_known) {
		d->s->area = d->c->area;
		d->s->area_known = true;
	}
	r.area = d->s->area_known ? &d->s->area : NULL;
	d->pass = 2;
	flow_run(d->c->flow, &r);
	find_commit(d);
	check_index(d);
	if (!d->commit || d->commit->is_area || is_private(d, d->commit))
		return;
	at = d->commit->address;
	r.commit = &at;
	d->pass = 3;
	flow_run(d->c->flow, &r);
}

void check_data(struct checker *c, struct sequence *s)
{
	struct data d = {.c = c, .s = s};

	/* At most two for each instruction; of a giant one the first thousands will do. */
	d.room = 2 * (s->insn_count - s->first);
	d.room = d.room < 4096 ? d.room : 4096;
	d.inside = allocate_zeros(d.room, sizeof(*d.inside));
	data_run(&d);
	if (!s->arm)
		add_problem(s, RULE_ARM_UNSEEN, 0);
	check_stores(&d);
	check_outside(&d);
	free(d.inside);
}
