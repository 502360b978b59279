#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: models/spin.sh MODEL.pml [-Dswitch...]: see run.sh. $optimize is for the compiler.
# Passes if the search of all states finds no violation, nothing cut the search short, every
# statement was reached, and there is no endless execution but those that the model marks with
# progress labels.
set -u

if ! command -v spin >/dev/null; then
	echo "spin is not installed (Debian package spin)" >&2
	exit 77
fi

# search NAME CFLAGS RUNFLAGS: leaves pan's report in the file NAME; fails if it holds a violation.
search() {
	# shellcheck disable=SC2086 # the flags are lists
	"${CC:-cc}" "${optimize:--O1}" -w $2 -o "pan_$1" pan.c && "./pan_$1" -m1000000 $3 >"$1" 2>&1
	if ! grep -q 'errors: [0-9]' "$1"; then
		cat "$1" >&2
		exit 1
	fi
	grep -q 'errors: 0' "$1" || return 1
	if grep -E 'Search not completed|max search depth too small|out of memory' "$1" >&2; then
		exit 1
	fi
}

report() {
	sed -n 's/^pan:1: */violated: /p' "$1"
	exit 0
}

states() {
	awk '/states, stored/ { print $1; exit }' "$1"
}

model=$1
shift
spin -a "$@" "$model" >&2 && [ -f pan.c ] || exit 1

# A violation is searched again breadth first, which finds the one with the fewest steps.
if ! search all -DSAFETY ''; then
	search first '-DSAFETY -DBFS' ''
	report first
fi
if grep -q '([1-9][0-9]* of [0-9]* states)' all; then
	echo "violated: statements that are never reached:"
	sed -n '/^unreached/,/states)/p' all
	exit 0
fi
search endless -DNP -l || report endless
echo "pass: $(states all) states; no endless execution in $(states endless)"
