#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: mistakes.sh PROGRAM NEARCPU SOURCE-DIRECTORY COMPILER [OPTION...]
# The tutorial's mistakes are found, in the words that its page shows: by near_torture, by nearcpu
# check, and by the assembler.
set -eu
program=$1 nearcpu=$2 source=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect WORDS: they are in the output.
expect() {
	grep -qF -- "$1" "$scratch/output" && return
	printf 'expected: %s\ngot:\n' "$1" >&2
	cat "$scratch/output" >&2
	exit 1
}

# torture MISTAKE WORDS
torture() {
	status=0
	"$program" "$1" >"$scratch/output" 2>&1 || status=$?
	[ $status -ne 77 ] || { cat "$scratch/output" && exit 77; }
	expect "$2"
	[ $status -eq 1 ] || { echo "$1: exit status $status" >&2 && exit 1; }
}

torture count "nothing in between: an entry has no id"
torture value "append in the signal handler: an id is lost, or there twice"
[ "$(nproc)" = 1 ] || torture slot "to another CPU: changed the slot that the thread had left"

"$nearcpu" check "$program" >"$scratch/output" 2>&1 || true
if ! grep -q 'built without' "$scratch/output"; then
	expect "[early-update]"
	expect "[reads-own-store]"
	expect "[value-outside]"
fi

! "$@" -DTWO_COMMITS -I"$source/include" -c -o "$scratch/mistakes.o" \
	"$source/examples/tutorial/mistakes.c" >"$scratch/output" 2>&1 ||
	{ echo "two commits assemble" >&2 && exit 1; }
expect "nearcpu: an operation follows the commit"
