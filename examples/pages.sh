#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: pages.sh SOURCE-DIRECTORY LIBRARY COMPILER [OPTION...]
# Compiles what the man pages show as C, and links what has a main. The example of near_seq(7) must
# be examples/sequence.h.
set -eu
source=$1 library=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# blocks PAGE: each literal block of the page becomes a file.
blocks() {
	awk -v name="$scratch/$(basename "$1" .scd)" '
		/^```/ { inside = !inside; number += inside; next }
		inside { print >(name "." number ".c") }' "$1"
}

set -- "$@" -std=c11 -Wall -Wextra -Wno-unused-function -pedantic -Werror -I"$source/include"
compiled=0
for page in "$source"/man/*.scd; do
	blocks "$page"
done
for block in "$scratch"/*.c; do
	grep -q '^#include' "$block" || continue
	if grep -q '^int main' "$block"; then
		"$@" -o "$scratch/out" "$block" "$library" -pthread
	else
		"$@" -o "$scratch/out" -c "$block"
	fi
	compiled=$((compiled + 1))
done
sed 1d "$source/examples/sequence.h" | diff - "$scratch/near_seq.7.1.c" || {
	echo "near_seq(7) does not show examples/sequence.h" >&2
	exit 1
}
echo "$compiled compiled"
[ $compiled -ge 6 ]
