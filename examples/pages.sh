#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: pages.sh SOURCE-DIRECTORY LIBRARY-DIRECTORY COMPILER [OPTION...]
# Compiles what the man pages show as C, and links what has a main. The example of near_seq(7) must
# be examples/sequence.h, that of near_torture(3) examples/torture.c.
set -eu
source=$1 libraries=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# blocks PAGE: each literal block of the page becomes a file.
blocks() {
	awk -v name="$scratch/$(basename "$1" .scd)" '
		/^```/ { inside = !inside; number += inside; next }
		inside { print >(name "." number ".c") }' "$1"
}

# clang would warn of each atomic that libatomic is for.
set -- "$@" -std=c11 -Wall -Wextra -Wno-unused-function -Wno-atomic-alignment -pedantic -Werror \
	-I"$source/include" -I"$source/examples"
compiled=0
for page in "$source"/man/*.scd; do
	blocks "$page"
done
for block in "$scratch"/*.c; do
	grep -q '^#include' "$block" || continue
	if grep -q '^int main' "$block"; then
		"$@" -o "$scratch/out" "$block" "$libraries/libnearcpu-torture.a" \
			"$libraries/libnearcpu-malloc.a" "$libraries/libnearcpu.a" -pthread
	else
		"$@" -o "$scratch/out" -c "$block"
	fi
	compiled=$((compiled + 1))
done
# shows PAGE EXAMPLE: a block of the page is the example without its licence line.
shows() {
	for block in "$scratch/$1".*.c; do
		! sed 1d "$source/examples/$2" | cmp -s - "$block" || return 0
	done
	sed 1d "$source/examples/$2" | diff - "$scratch/$1.1.c" >&2 || true
	echo "$1 does not show examples/$2" >&2
	exit 1
}
shows near_seq.7 sequence.h
shows near_torture.3 torture.c
shows near_abi.7 rust/src/near_abi.rs
echo "$compiled compiled"
[ $compiled -ge 7 ]
