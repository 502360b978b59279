/* SPDX-License-Identifier: MIT */
/* near_trace: messages with a format, as tracepoints log:error to log:verbose. */
#include "trace/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define LONGEST 4096

NEAR_TRACEPOINT(log, error, NEAR_TRACE_ERROR, (string, text));
NEAR_TRACEPOINT(log, warning, NEAR_TRACE_WARNING, (string, text));
NEAR_TRACEPOINT(log, notice, NEAR_TRACE_NOTICE, (string, text));
NEAR_TRACEPOINT(log, info, NEAR_TRACE_INFO, (string, text));
NEAR_TRACEPOINT(log, debug, NEAR_TRACE_DEBUG, (string, text));
NEAR_TRACEPOINT(log, verbose, NEAR_TRACE_VERBOSE, (string, text));

static const struct {
	struct near_trace_point *point;
	void (*write)(const char *text);
} logs[] = {
	{&near__trace_point_log_error, near_trace_log_error},
	{&near__trace_point_log_warning, near_trace_log_warning},
	{&near__trace_point_log_notice, near_trace_log_notice},
	{&near__trace_point_log_info, near_trace_log_info},
	{&near__trace_point_log_debug, near_trace_log_debug},
	{&near__trace_point_log_verbose, near_trace_log_verbose},
};

void near_trace_message(enum near_trace_level level, const char *format, ...)
{
	unsigned i = (int)level < NEAR_TRACE_ERROR ? 0
		     : level > NEAR_TRACE_VERBOSE  ? NEAR_TRACE_VERBOSE - 1
						   : (unsigned)level - 1;
	char text[LONGEST];
	int saved = errno;
	va_list args;

	if (!__atomic_load_n(&logs[i].point->enabled, __ATOMIC_RELAXED))
		return;
	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) >= 0)
		logs[i].write(text);
	va_end(args);
	errno = saved;
}
