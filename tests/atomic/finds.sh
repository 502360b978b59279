#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: finds.sh PROGRAM FAULT...
# Passes if the test, linked with mutant.c in place of the library, finds each of its faults, and
# nothing where nothing is wrong. Up to five runs, since a run finds a fault only sometimes.
set -u
program=$1
shift

# run FAULT SECONDS: whether the test finds it. A fault may make the test wait for ever.
run() {
	NEAR_ATOMIC_MUTANT=$1 timeout -s KILL "$2" "$program" 2>&1
	status=$?
	echo "$1: status $status"
	((status == 77)) && exit 77
	((status != 0 && status < 124))
}

for fault; do
	for _ in 1 2 3 4 5; do
		if run "$fault" 60; then
			continue 2
		fi
	done
	echo "'$fault' was not found"
	exit 1
done
run none 600
((status == 0))
