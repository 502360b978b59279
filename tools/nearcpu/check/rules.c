/* SPDX-License-Identifier: MIT */
/* The rules and the severities, as they are printed. */
#include "check/rules.h"

const char *const severity_names[] = {[NOTE] = "note", [WARNING] = "warning", [FAULT] = "fault"};

const struct rule_text rule_texts[RULES] = {
#define RULE(name, ...) {__VA_ARGS__},
#include "check/rules_list.h"
#undef RULE
};
