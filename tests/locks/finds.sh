#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: finds.sh PROGRAM FAULT...
# Passes if the stress with mutants.c finds each fault: a wait does not end, accounts differ, or the
# library itself stops the program.
set -u
program=$1
shift
for fault; do
	out=$(NEAR_LOCKS_MUTANT=$fault timeout -s KILL 60 "$program" --seconds 30 --patience 3 2>&1)
	status=$?
	echo "$out"
	if [[ ! $status =~ ^(1|134)$ || $out != *"the fault '$fault' happens"* ||
		! $out =~ 'a wait does not end'|'is false'|'nearcpu: near_' ]]; then
		echo "status $status: '$fault' was not found"
		exit 1
	fi
done
