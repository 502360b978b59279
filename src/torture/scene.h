/* SPDX-License-Identifier: MIT */
/* scene: one operation, stopped in one place, in one company. */
#ifndef NEARCPU_TORTURE_SCENE_H
#define NEARCPU_TORTURE_SCENE_H

#include "job.h"

#define SCENE_KEPT 4096

struct scene {
	struct job *job;
	struct trap_plan plan;
	enum company company;
	unsigned rival; /* its number; n_rivals: none */
	bool first;     /* the operation has been through no other sequence before */
	bool live;      /* and was live where it was stopped, as far as is known */
	/* What must not change any more. */
	const void *kept_at; /* NULL: nothing */
	size_t kept_size;
	unsigned char kept[SCENE_KEPT];
};

/* Whether the operation comes to that instruction of the plan's sequence. */
bool near__scene_comes_to(struct scene *s, unsigned point);

/* Runs it in the company that *s names; judges and reports. */
void near__scene_try(struct scene *s);

/* Aborts all sequences whenever they are tried. */
void near__scene_without(struct scene *s);

#endif
