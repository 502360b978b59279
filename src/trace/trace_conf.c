/* SPDX-License-Identifier: MIT */
/* near_trace: a session that NEAR_CONF starts with the first tracepoint, as `nearcpu trace record`
 * sets it. It ends with the process. */
#define _GNU_SOURCE
#include "trace/trigger.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"

struct trace_conf {
	struct near__conf_text path, enable, triggers, context;
	int mode, level, children;
	uint64_t ring, max, file, files;
};

#define FIELD(f) offsetof(struct trace_conf, f)

static const struct near__setting list[] = {
	{"trace", NEAR__CONF_TEXT, FIELD(path), 0},
	{"trace_enable", NEAR__CONF_TEXT, FIELD(enable), 0},
	{"trace_context", NEAR__CONF_TEXT, FIELD(context), 0},
	{"trace_trigger", NEAR__CONF_TEXT, FIELD(triggers), 0},
	{"trace_ring", NEAR__CONF_NUMBER, FIELD(ring), 0},
	{"trace_max", NEAR__CONF_NUMBER, FIELD(max), 0},
	{"trace_file", NEAR__CONF_NUMBER, FIELD(file), 0},
	{"trace_files", NEAR__CONF_NUMBER, FIELD(files), 0},
	{"trace_mode", "overwrite", FIELD(mode), NEAR_TRACE_OVERWRITE},
	{"trace_mode", "stop", FIELD(mode), NEAR_TRACE_STOP_WHEN_FULL},
	{"trace_mode", "stream", FIELD(mode), NEAR_TRACE_STREAM},
	{"trace_children", "thread", FIELD(children), 1},
	{"trace_level", "error", FIELD(level), NEAR_TRACE_ERROR},
	{"trace_level", "warning", FIELD(level), NEAR_TRACE_WARNING},
	{"trace_level", "notice", FIELD(level), NEAR_TRACE_NOTICE},
	{"trace_level", "info", FIELD(level), NEAR_TRACE_INFO},
	{"trace_level", "debug", FIELD(level), NEAR_TRACE_DEBUG},
	{"trace_level", "verbose", FIELD(level), NEAR_TRACE_VERBOSE},
};

static const struct near__settings settings = {
	.list = list,
	.count = sizeof(list) / sizeof(list[0]),
	.prefixes = near__conf_trace_prefixes,
	.prefix_count = 1,
	.own = 1,
};

static bool started;

/* Patterns are separated by `+`, as NEAR_CONF has commas. */
static void conf_copy(char *to, size_t size, struct near__conf_text from)
{
	snprintf(to, size, "%.*s", (int)from.len, from.len ? from.text : "");
}

/* Separated by `;`, and their words by `+`. */
static void set_triggers(struct near__conf_text from)
{
	char texts[NEAR__TRACE_TRIGGER_TEXT * NEAR__TRACE_TRIGGERS], *next;

	conf_copy(texts, sizeof(texts), from);
	for (char *text = texts; text && *text; text = next) {
		next = strchr(text, ';');
		if (next)
			*next++ = 0;
		for (char *c = text; (c = strchr(c, '+'));)
			*c = ' ';
		if (near_trace_trigger(text) < 0)
			dprintf(2, "nearcpu: NEAR_CONF: trigger '%s': %s\n", text,
				near_trace_error());
	}
}

/* Of all tracepoints. */
static void set_context(struct near__conf_text from)
{
	static const char *const names[] = {"ids", "thread", "process", "stack"};
	char texts[64], *rest = texts, *name;
	unsigned what = 0, i;

	conf_copy(texts, sizeof(texts), from);
	while (*texts && (name = strsep(&rest, "+"))) {
		for (i = 0; i < 4 && strcmp(name, names[i]) != 0; i++)
			continue;
		if (i == 4)
			dprintf(2, "nearcpu: NEAR_CONF: there is no trace_context '%s'\n", name);
		what |= 1u << i & 15;
	}
	if (what && near_trace_context("*", what) < 0)
		dprintf(2, "nearcpu: NEAR_CONF: trace_context: %s\n", near_trace_error());
}

static void start_session(const struct trace_conf *conf)
{
	char path[PATH_MAX], enable[NEAR__TRACE_PATTERN * 8];
	struct near_trace_options o = {.path = path};

	conf_copy(path, sizeof(path), conf->path);
	conf_copy(enable, sizeof(enable), conf->enable);
	for (char *c = enable; *c; c++)
		if (*c == '+')
			*c = ',';
	o.enable = *enable ? enable : NULL;
	o.mode = (enum near_trace_mode)conf->mode;
	o.level = (enum near_trace_level)conf->level;
	o.ring_size = conf->ring;
	o.max_bytes = conf->max;
	o.file_size = conf->file;
	o.files = (unsigned)conf->files;
	if (near_trace_start(&o))
		dprintf(2, "nearcpu: NEAR_CONF: cannot trace to '%s': %s\n", path,
			near_trace_error());
	else
		started = true;
	if (started) {
		set_context(conf->context);
		set_triggers(conf->triggers);
	}
}

void near__trace_start_by_conf(void)
{
	struct trace_conf conf = {.ring = 0};
	uint32_t no = 0;

	/* One copy of the library, once. */
	if (!__atomic_compare_exchange_n(&near__trace.has_read_conf, &no, NEAR__TRACE_READS_CONF,
					 false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	near__conf_read_part(&settings, &conf);
	near__trace.serves_children = (uint32_t)conf.children;
	if (conf.path.len)
		start_session(&conf);
	__atomic_store_n(&near__trace.has_read_conf, 1, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void conf_stop(void)
{
	if (started)
		near_trace_stop();
}
