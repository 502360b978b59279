/* SPDX-License-Identifier: MIT */
/* Evaluates straight code: what each register and word of memory holds. */
#include "check/flow.h"

#include <stdlib.h>
#include <string.h>

#define RISCV_GP 3

uint32_t flow_stack(const struct flow *flow)
{
	return NAME_FIRST + (uint32_t)flow->image->facts->stack;
}

bool flow_has_own(const struct flow *flow, struct value address)
{
	for (unsigned r = 0; r < REGISTERS && !flow->compared_index; r++) {
		struct value own = flow->registers[r];

		if ((flow->names.from[own.name] & (FROM_INDEX | FROM_DATA)) == FROM_INDEX &&
		    flow->names.parts[own.name].a && flow->names.parts[address.name].a &&
		    value_shares(&flow->names, own.name, address.name, flow_stack(flow)))
			return true;
	}
	return false;
}

static struct value reg(const struct flow *f, int number)
{
	return number == NO_REGISTER ? value_constant(0) : f->registers[number & (REGISTERS - 1)];
}

static struct value address_of(struct flow *f, const struct insn_memory *m)
{
	struct value at = value_constant(m->offset);

	if (m->base != NO_REGISTER)
		at = value_sum(&f->names, at, reg(f, m->base));
	if (m->index != NO_REGISTER)
		at = value_sum(&f->names, at, value_shifted(&f->names, reg(f, m->index), m->shift));
	if (m->is_thread)
		at = value_sum(&f->names, at, (struct value){NAME_THREAD, 0});
	return at;
}

static bool is_inside(const struct flow *f, const struct insn *insn)
{
	return !f->depth && insn->address >= f->run->start && insn->address < f->run->end;
}

/* The offset of an address that has the area's name. */
static int64_t in_area(const struct flow *f, struct value at)
{
	return (int64_t)((uint64_t)at.plus - (uint64_t)f->run->area->plus);
}

static bool is_area(const struct flow *f, struct value at, unsigned size)
{
	const struct value *area = f->run->area;
	int64_t d;

	if (!area || at.name != area->name)
		return false;
	d = in_area(f, at);
	return d > -(int64_t)size && d < AREA_END;
}

/* The index is any number that the kernel keeps in the area; nothing else of it is read. */
static uint8_t from_area(struct flow *f, const struct insn *insn, struct value at)
{
	int64_t d = in_area(f, at);

	if (d >= AREA_CS && d < AREA_FLAGS)
		return 0;
	if (!is_inside(f, insn))
		return FROM_INDEX_BEFORE;
	f->saw_index = true;
	f->saw_overlay |= d < 0;
	return FROM_INDEX;
}

static struct value loaded(struct flow *f, const struct insn *insn, struct value at, unsigned size)
{
	uint8_t from = f->names.from[at.name] & (uint8_t)~FROM_COMMITTED;
	struct value value;
	struct memo *m;
	bool is_new;

	if (is_area(f, at, size))
		from |= from_area(f, insn, at);
	else if (is_inside(f, insn) && at.name != flow_stack(f))
		from |= FROM_DATA;
	else if (f->run->commit && !is_inside(f, insn) &&
		 value_is_like(&f->names, at, *f->run->commit, flow_stack(f)))
		from |= FROM_COMMITTED;
	m = names_memo(&f->names, MEMO_MEMORY, at.name, size, at.plus, &is_new);
	/* What was loaded before the sequence is another value than the same word inside. */
	if (m && !is_new && !(from & ~f->names.from[m->value.name]))
		return m->value;
	if (!value_in_file(&f->names, f->image, at, size, &value))
		value = value_new(&f->names, from);
	if (m)
		m->value = value;
	if (is_area(f, at, size) && from & FROM_INDEX && f->bare_count < BARE)
		f->bare[f->bare_count++] = value.name;
	return value;
}

static void remember_store(struct flow *f, const struct access *a)
{
	bool is_new;
	struct memo *m = names_memo(&f->names, MEMO_MEMORY, a->address.name, a->size,
				    a->address.plus, &is_new);

	/* The stack gives back what was put there. What other words of memory hold may be there for
	 * anybody to change: a pointer that was stored is not taken for the one that is loaded. */
	if (m)
		m->value = a->address.name == flow_stack(f)
				   ? a->value
				   : value_new(&f->names, f->names.from[a->value.name]);
}

static struct value stored_value(struct flow *f, const struct insn *insn)
{
	if (insn->stored != NO_REGISTER)
		return reg(f, insn->stored);
	if (insn->stores_const)
		return value_constant(insn->imm);
	return value_new(&f->names, 0);
}

/* Reports the accesses of an instruction. Returns what the load among them got. */
static struct value accesses(struct flow *f, const struct insn *insn, uint8_t read_from)
{
	struct value got = value_constant(0);

	for (unsigned i = 0; i < insn->memory_count; i++) {
		const struct insn_memory *m = &insn->memory[i];
		struct access a = {.insn = insn, .size = m->size};

		a.address = address_of(f, m);
		a.address_from = f->names.from[a.address.name];
		a.is_area = is_area(f, a.address, a.size);
		a.is_load = m->read;
		a.is_store = m->written;
		if (m->read)
			got = a.value = loaded(f, insn, a.address, m->size);
		if (m->written) {
			a.value = stored_value(f, insn);
			a.stores_const = a.value.name == NAME_CONST;
		}
		a.value_from = f->names.from[a.value.name] |
			       (m->written && !a.stores_const && insn->stored == NO_REGISTER
					? read_from | f->names.from[got.name]
					: 0);
		if (f->run->visit && !f->depth)
			f->run->visit(f->run->context, f, &a);
		if (m->written)
			remember_store(f, &a);
	}
	return got;
}

static struct value result(struct flow *f, const struct insn *insn, struct value got)
{
	struct value v;

	switch (insn->value) {
	case VALUE_CONST:
		return value_constant(insn->imm);
	case VALUE_COPY:
		return value_sum(&f->names, reg(f, insn->src), value_constant(insn->imm));
	case VALUE_SUM:
		v = value_sum(&f->names, reg(f, insn->src),
			      value_shifted(&f->names, reg(f, insn->src2), insn->shift));
		return value_sum(&f->names, v, value_constant(insn->imm));
	case VALUE_LOAD:
		return got;
	case VALUE_THREAD:
		return (struct value){NAME_THREAD, insn->imm};
	default:
		return value_new(&f->names, 0);
	}
}

/* Registers that hold the same in all of the program. */
static void set_constants(struct flow *f)
{
	if (f->image->facts->thread != NO_REGISTER)
		f->registers[f->image->facts->thread] = (struct value){NAME_THREAD, 0};
	if (f->image->global_pointer)
		f->registers[RISCV_GP] = value_constant((int64_t)f->image->global_pointer);
}

static void forget(struct flow *f, uint64_t registers)
{
	for (unsigned r = 0; r < REGISTERS; r++)
		if (registers >> r & 1)
			f->registers[r] = value_new(&f->names, 0);
	set_constants(f);
}

static void step(struct flow *f, const struct insn *insn);

#define CALLED_LENGTH 32
#define CALLED_DEPTH 3

/* Follows a call of a function that goes straight on to its return, such as one that returns the
 * address of the area. False, and nothing has changed, if it is not one. */
static bool follow_call(struct flow *f, uint64_t address)
{
	struct value before[REGISTERS];
	int stack = f->image->facts->stack;
	bool returned = false;
	struct insn insn;

	if (f->depth == CALLED_DEPTH)
		return false;
	f->depth++;
	memcpy(before, f->registers, sizeof(before));
	for (int i = 0; i < CALLED_LENGTH; i++) {
		if (!decode(f->decoder, address, &insn, false) ||
		    (insn.kind & INSN_BRANCH && !(insn.kind & INSN_CALL)))
			break;
		returned = insn.kind & INSN_RETURNS;
		if (insn.kind & INSN_INDIRECT)
			break; /* else on to another function, as from a PLT */
		step(f, &insn);
		address += insn.size;
	}
	f->depth--;
	if (!returned)
		memcpy(f->registers, before, sizeof(before));
	f->registers[stack] = before[stack];
	return returned;
}

/* Where a call goes, 0 if that is not known. */
static uint64_t call_target(const struct flow *f, const struct insn *insn)
{
	struct value to = reg(f, insn->src);

	if (insn->kind & INSN_BRANCH)
		return insn->target;
	return to.name == NAME_CONST ? (uint64_t)to.plus + (uint64_t)insn->imm : 0;
}

static bool is_bare(const struct flow *f, uint32_t name)
{
	for (unsigned i = 0; i < f->bare_count; i++)
		if (f->bare[i] == name)
			return true;
	return false;
}

/* Compares the index as it was loaded with a constant: whether its sign says that the thread is
 * registered, not whether it is still the one that was read before. */
static bool tests_sign(const struct flow *f, const struct insn *insn)
{
	uint64_t operands = insn->reads;
	uint32_t name = NAME_CONST;
	unsigned n = 0;

	for (unsigned i = 0; i < insn->memory_count; i++)
		for (int k = 0; k < 2; k++) {
			int r = k ? insn->memory[i].index : insn->memory[i].base;

			if (r != NO_REGISTER)
				operands &= ~(UINT64_C(1) << (r & (REGISTERS - 1)));
		}
	for (; operands; operands &= operands - 1, n++)
		name = f->registers[__builtin_ctzll(operands)].name;
	return insn->memory_count ? n == 0 : n == 1 && is_bare(f, name);
}

static void step(struct flow *f, const struct insn *insn)
{
	uint8_t from = 0;
	struct value got, value, moved;
	uint64_t called;
	int base = insn->memory_count ? insn->memory[0].base : NO_REGISTER;

	for (uint64_t left = insn->reads; left; left &= left - 1)
		from |= f->names.from[f->registers[__builtin_ctzll(left)].name];
	called = call_target(f, insn);
	moved = value_sum(&f->names, reg(f, base), value_constant(insn->writeback));
	got = accesses(f, insn, from);
	from |= f->names.from[got.name];
	if (insn->kind & INSN_READS_CPU) {
		from |= is_inside(f, insn) ? FROM_INDEX : FROM_INDEX_BEFORE;
		f->saw_index |= is_inside(f, insn);
	}
	if (is_inside(f, insn) && (from & (FROM_INDEX | FROM_DATA)) == FROM_INDEX &&
	    (insn->kind & INSN_BRANCH || (!insn->writes && !(insn->kind & INSN_STORE))) &&
	    !tests_sign(f, insn))
		f->compared_index = true;
	value = insn->dst != NO_REGISTER ? result(f, insn, got) : got;
	for (uint64_t left = insn->writes; left; left &= left - 1)
		f->registers[__builtin_ctzll(left)] = value_new(&f->names, from);
	if (insn->dst != NO_REGISTER && insn->value != VALUE_OTHER)
		f->registers[insn->dst] = value;
	if (insn->writeback && base != NO_REGISTER && base != insn->dst)
		f->registers[base] = moved;
	if (insn->kind & INSN_CALL && !follow_call(f, called))
		forget(f, ~f->image->facts->saved);
}

/* Code after a jump is reached from elsewhere, with the registers as they were there. False if that
 * place is not known. */
static bool arrive(struct flow *f, uint64_t address)
{
	for (unsigned i = f->branch_count; i > 0 && f->branch_count - i < BRANCHES; i--) {
		const struct branch *b = &f->branches[(i - 1) % BRANCHES];

		if (b->target == address) {
			memcpy(f->registers, b->registers, sizeof(f->registers));
			return true;
		}
	}
	return false;
}

static void leave(struct flow *f, const struct insn *insn)
{
	struct branch *b = &f->branches[f->branch_count % BRANCHES];

	if (!(insn->kind & INSN_BRANCH) || insn->kind & INSN_CALL || insn->target <= insn->address)
		return;
	f->branch_count++;
	b->target = insn->target;
	memcpy(b->registers, f->registers, sizeof(b->registers));
}

static void flow_begin(struct flow *f, const struct flow_run *run)
{
	f->run = run;
	names_begin(&f->names, NAME_FIRST + REGISTERS);
	f->branch_count = f->bare_count = 0;
	f->saw_index = f->compared_index = f->saw_overlay = false;
	for (unsigned r = 0; r < REGISTERS; r++)
		f->registers[r] = (struct value){NAME_FIRST + r, 0};
	set_constants(f);
}

void flow_run(struct flow *f, const struct flow_run *run)
{
	bool lost = false;

	flow_begin(f, run);
	for (size_t i = 0; i < run->count; i++) {
		const struct insn *insn = &run->insns[i];

		if (lost)
			lost = !arrive(f, insn->address);
		step(f, insn);
		leave(f, insn);
		if (insn->kind & INSN_ENDS) {
			forget(f, ~((uint64_t)1 << f->image->facts->stack));
			lost = true;
		}
	}
	f->run = NULL;
}
