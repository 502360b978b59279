/* SPDX-License-Identifier: MIT */
/* rules: what is checked. nearcpu-check(1) explains each; the names are part of the interface. */
#ifndef NEARCPU_CHECK_RULES_H
#define NEARCPU_CHECK_RULES_H

enum severity { NOTE, WARNING, FAULT };

enum rule {
	/* The descriptor. */
	RULE_DESCRIPTOR_MISSING,
	RULE_DESCRIPTOR_ALIGNMENT,
	RULE_DESCRIPTOR_VERSION,
	RULE_DESCRIPTOR_FLAGS,
	RULE_DESCRIPTOR_UNLISTED,
	RULE_RANGE_EMPTY,
	RULE_RANGE_OUTSIDE,
	RULE_ABORT_INSIDE,
	RULE_ABORT_OUTSIDE,
	RULE_ABORT_SIGNATURE,
	/* Single instructions. */
	RULE_COVERAGE,
	RULE_CALL,
	RULE_SYSTEM_CALL,
	RULE_TRAP,
	RULE_INDIRECT_BRANCH,
	RULE_ATOMIC,
	RULE_STACK,
	/* Branches. */
	RULE_BRANCH_SPLIT,
	RULE_LOOP,
	RULE_EXIT_OUTSIDE,
	RULE_EXIT_UNLISTED,
	RULE_EXIT_FAR,
	RULE_ENTRY_INSIDE,
	RULE_ENTRY_UNARMED,
	RULE_RETRY_UNARMED,
	/* Data. */
	RULE_COMMIT_NONE,
	RULE_COMMIT_NOT_LAST,
	RULE_COMMIT_OUTSIDE,
	RULE_COMMIT_TWICE,
	RULE_INDEX_MISSING,
	RULE_INDEX_OUTSIDE,
	RULE_INDEX_UNSEEN,
	RULE_ARM_UNSEEN,
	RULE_KERNEL_FIELD,
	RULE_KERNEL_FIELD_RESET,
	RULE_EARLY_UPDATE,
	RULE_EARLY_STORE,
	RULE_READS_OWN_STORE,
	RULES
};

struct rule_text {
	const char *id;
	enum severity severity;
	const char *reason;
	const char *advice;
};

extern const struct rule_text rule_texts[RULES];
extern const char *const severity_names[];

#endif
