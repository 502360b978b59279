/* SPDX-License-Identifier: MIT */
/* proto: messages of protocol buffers. One within another needs its length before it: each is
 * written to memory first. */
#ifndef NEARCPU_TOOL_PROTO_H
#define NEARCPU_TOOL_PROTO_H

#include <stdint.h>
#include <stdio.h>

#include "common/memory.h"

void proto_put_number(FILE *f, unsigned field, uint64_t value);

/* A sint: small ones of either sign are short. */
void proto_put_signed(FILE *f, unsigned field, int64_t value);
void proto_put_fixed(FILE *f, unsigned field, uint64_t value);
void proto_put_double(FILE *f, unsigned field, double value);
void proto_put_bytes(FILE *f, unsigned field, const char *bytes, size_t size);
void proto_put_text(FILE *f, unsigned field, const char *text);

/* Ends m, and puts it into f; field 0: only its length comes before it. */
void proto_put_message(FILE *f, unsigned field, struct memory_file *m);

#endif
