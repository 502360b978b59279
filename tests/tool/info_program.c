/* SPDX-License-Identifier: MIT */
/* A program with the library in it, for nearcpu info: it prints a line, and ends with its input. */
#include <nearcpu/rseq.h>
#include <stdio.h>

int main(void)
{
	struct near_rseq_status st;

	near_rseq_status(&st, sizeof(st));
	puts("ready");
	fflush(stdout);
	return getchar() != EOF;
}
