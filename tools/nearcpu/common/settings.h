/* SPDX-License-Identifier: MIT */
/* settings: what NEAR_CONF takes. It is checked before a program is started, since a library can
 * only warn. */
#ifndef NEARCPU_SETTINGS_H
#define NEARCPU_SETTINGS_H

#include <stdbool.h>

/* `key` is one of the settings. */
bool setting_takes(const char *key, const char *value);

/* `nearcpu run --conf`: 0; else the exit status, after a message. */
int settings_check(const char *conf);

#endif
