#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: finds.sh PROGRAM FAULT[:SCENARIO]...
# Passes if the stress with mutants.c finds each fault: a wait does not end, accounts differ, or the
# library itself stops the program; and if without a fault (FAULT none) it finds nothing. 77: the
# fault needs what the machine lacks.
set -u
program=$1
shift
for fault; do
	scenario=()
	[[ $fault != *:* ]] || scenario=(--scenario "${fault#*:}")
	fault=${fault%:*}
	if [[ $fault = none ]]; then
		"$program" --seconds 4 "${scenario[@]}" || exit 1
		continue
	fi
	out=$(NEAR_LOCKS_MUTANT=$fault timeout -s KILL 150 \
		"$program" --seconds 120 --patience 3 "${scenario[@]}" 2>&1)
	status=$?
	echo "$out"
	((status != 77)) || continue
	if [[ ! $status =~ ^(1|134)$ || $out != *"the fault '$fault' happens"* ||
		! $out =~ 'a wait does not end'|'is false'|'nearcpu: near_' ]]; then
		echo "status $status: '$fault' was not found"
		exit 1
	fi
done
