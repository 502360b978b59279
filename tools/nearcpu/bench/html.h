/* SPDX-License-Identifier: MIT */
/* html: the parts of the page. */
#ifndef NEARCPU_HTML_H
#define NEARCPU_HTML_H

#include "bench/report.h"

extern const char html_style[];

/* Text between tags or in quotes. */
void html_text(FILE *f, const char *text);

/* Heading, what is measured, what it shows, chart, table, figures. `svg`: the chart, or NULL. */
void html_table(FILE *f, const struct table_result *t, size_t number, const char *svg);

#endif
