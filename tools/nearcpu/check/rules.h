/* SPDX-License-Identifier: MIT */
/* rules: what is checked. The names are part of the interface. */
#ifndef NEARCPU_CHECK_RULES_H
#define NEARCPU_CHECK_RULES_H

enum severity { NOTE, WARNING, FAULT };

enum rule {
#define RULE(name, ...) RULE_##name,
#include "check/rules_list.h"
#undef RULE
	RULES
};

struct rule_text {
	enum severity severity;
	const char *id;
	const char *reason;
	const char *advice;
};

extern const struct rule_text rule_texts[RULES]; /* by enum rule */
extern const char *const severity_names[];

#endif
