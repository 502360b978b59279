/* SPDX-License-Identifier: MIT */
/* What an instruction must not be, and where branches may go and come from. */
#include "check/array.h"
#include "check/sequence.h"

#include <string.h>

void check_instructions(struct checker *c, struct sequence *s)
{
	static const struct {
		uint32_t kind;
		enum rule rule;
	} forbidden[] = {
		{INSN_CALL, RULE_CALL},     {INSN_SYSCALL, RULE_SYSTEM_CALL},
		{INSN_TRAP, RULE_TRAP},     {INSN_INDIRECT, RULE_INDIRECT_BRANCH},
		{INSN_ATOMIC, RULE_ATOMIC},
	};
	uint64_t stack = (uint64_t)1 << c->image->facts->stack;

	for (size_t i = s->first; i < s->insn_count; i++) {
		const struct insn *insn = &s->insns[i];

		for (size_t k = 0; k < sizeof(forbidden) / sizeof(forbidden[0]); k++)
			if (insn->kind & forbidden[k].kind)
				add_problem(s, forbidden[k].rule, insn->address);
		if (insn->writes & stack && !(insn->kind & (INSN_CALL | INSN_INDIRECT)))
			add_problem(s, RULE_STACK, insn->address);
	}
}

/* Exits that the file lists: pairs of a start and an exit. */
static bool exits_listed(const struct checker *c, uint64_t start, uint64_t exit, bool *any)
{
	const struct image *image = c->image;

	for (size_t i = 0; i < image->listed_count[LISTED_EXITS]; i++) {
		const struct range *r = &image->listed[LISTED_EXITS][i];
		uint64_t pair[2];

		for (uint64_t at = r->start; r->end - at >= sizeof(pair); at += sizeof(pair)) {
			if (!decoder_spend(c->decoder) ||
			    !image_read(image, at, pair, sizeof(pair)))
				break;
			*any |= pair[0] == start;
			if (pair[0] == start && pair[1] == exit)
				return true;
		}
	}
	return false;
}

static bool is_boundary(const struct sequence *s, uint64_t address)
{
	const struct insn *insns = s->insns + s->first;
	size_t n = array_find(insns, s->insn_count - s->first, sizeof(*insns), address);

	return n && insns[n - 1].address == address;
}

/* Compilers move what is rarely run from `f` to `f.cold` or `f.cold.1`. */
static bool is_part(const struct function *whole, const struct function *f)
{
	static const char suffix[] = ".cold";
	size_t length;

	if (f == whole)
		return true;
	if (!f || !f->name || !whole->name)
		return false;
	length = strlen(whole->name);
	return strncmp(f->name, whole->name, length) == 0 &&
	       strncmp(f->name + length, suffix, strlen(suffix)) == 0;
}

static void check_exit(struct checker *c, struct sequence *s, const struct insn *insn)
{
	bool any = false;

	if (!image_is_code(c->image, insn->target)) {
		/* What an object does not define is elsewhere, not nowhere. */
		if (!c->image->is_object)
			add_problem(s, RULE_EXIT_OUTSIDE, insn->address);
		return;
	}
	if (insn->target == s->descriptor->abort)
		return;
	if (!exits_listed(c, s->start, insn->target, &any) && any && insn->target != s->end)
		add_problem(s, RULE_EXIT_UNLISTED, insn->address);
	if (s->function && !is_part(s->function, image_function(c->image, insn->target)) &&
	    (insn->target < s->function->start || insn->target >= s->function->end))
		add_problem(s, RULE_EXIT_FAR, insn->address);
}

static void check_own_branches(struct checker *c, struct sequence *s)
{
	for (size_t i = s->first; i < s->insn_count; i++) {
		const struct insn *insn = &s->insns[i];

		if (!(insn->kind & INSN_BRANCH) || insn->kind & INSN_CALL)
			continue;
		if (insn->target < s->start || insn->target >= s->end)
			check_exit(c, s, insn);
		else if (!is_boundary(s, insn->target))
			add_problem(s, RULE_BRANCH_SPLIT, insn->address);
		else if (insn->target <= insn->address)
			add_problem(s, RULE_LOOP, insn->address);
	}
}

static void check_entries(struct checker *c, struct sequence *s)
{
	size_t first = array_find(c->branches_in, c->branch_in_count, sizeof(*c->branches_in),
				  s->start - 1);

	for (size_t i = first; i < c->branch_in_count && c->branches_in[i].target < s->end; i++) {
		const struct branch_in *b = &c->branches_in[i];

		if (b->from >= s->start && b->from < s->end)
			continue;
		if (b->target != s->start)
			add_problem_with(s, RULE_ENTRY_INSIDE, b->target, "from 0x%llx",
					 (unsigned long long)b->from);
		else if (s->arm && s->arm < s->start && (b->from < s->arm || b->from >= s->end))
			add_problem_with(s, RULE_ENTRY_UNARMED, b->target, "from 0x%llx",
					 (unsigned long long)b->from);
	}
}

#define HANDLER_LENGTH 32

/* Follows the abort handler as far as it goes straight on. */
static void check_retry(struct checker *c, struct sequence *s)
{
	uint64_t at = s->descriptor->abort;
	struct insn insn;

	if (!s->arm || s->arm >= s->start || (at >= s->start && at < s->end))
		return;
	for (int i = 0; i < HANDLER_LENGTH; i++) {
		if (at == s->start) {
			add_problem(s, RULE_RETRY_UNARMED, s->descriptor->abort);
			return;
		}
		if (at == s->arm || !decode(c->decoder, at, &insn, false) ||
		    insn.kind & INSN_INDIRECT)
			return;
		at += insn.size;
		if ((insn.kind & (INSN_BRANCH | INSN_ENDS)) == (INSN_BRANCH | INSN_ENDS))
			at = insn.target;
	}
}

void check_branches(struct checker *c, struct sequence *s)
{
	check_own_branches(c, s);
	check_entries(c, s);
	check_retry(c, s);
}
