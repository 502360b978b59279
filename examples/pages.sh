#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: pages.sh SOURCE-DIRECTORY LIBRARY-DIRECTORY COMPILER [OPTION...]
# Of the man pages as groff prints them: compiles what they show as C, and links what has a main.
# The README's example is run, by what its comments say.
# The example of near_seq(7) must be examples/sequence.h, that of near_torture(3)
# examples/torture.c, that of near_abi(7) the Rust example's. scdoc takes backslashes out of literal
# blocks and asterisks out of text unless they are escaped, so each block is also compared with its
# source.
set -eu
source=$1 libraries=$2
shift 2
command -v groff >/dev/null || { echo "skipped: there is no groff" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# blocks KIND NAME: each literal block of the input becomes the file NAME.number.KIND. In printed
# pages, marks enclose a block.
blocks() {
	awk -v kind="$1" -v name="$2" '
		/^ *(```|@@begin)/ && !inside { inside = 1; number++; next }
		/^ *(```|@@end)/ { inside = 0; next }
		inside { print >(name "." number "." kind) }'
}

# printed PAGE: in lines that are not broken; blocks have their marks.
printed() {
	awk '{ print }
		/^\.nf/ { block = 1 }
		block && /^\.RS/ { print "@@begin"; block = 0 }' "$1" |
		sed 's/^\.fi/@@end\n.fi/' | GROFF_NO_SGR=1 groff -man -Tutf8 -P-cbou -rLL=999n
}

wrong=0
for page in "$source"/man/*.scd; do
	name=$(basename "$page" .scd)
	blocks source "$scratch/$name" <"$page"
	printed "$libraries/man/$name" | blocks c "$scratch/$name"
	awk '/^```/ { inside = !inside }
		!inside && / \* / { print FILENAME ":" FNR ": " $0; bad = 1 }
		END { exit bad }' "$page" || wrong=1
done
for block in "$scratch"/*.source; do
	sed 's/\\\\/\\/g' "$block" | diff -wB - "${block%.source}.c" || {
		printf '%s: in a literal block \\ is written \\\\\n' "${block##*/}"
		wrong=1
	}
done
[ $wrong = 0 ]

# clang would warn of each atomic that libatomic is for.
set -- "$@" -std=c11 -Wall -Wextra -Wno-unused-function -Wno-atomic-alignment -pedantic -Werror \
	-I"$source/include" -I"$source/examples"
compiled=0
for block in "$scratch"/*.c; do
	grep -q '^ *#include' "$block" || continue
	if grep -q '^ *int main' "$block"; then
		"$@" -o "$scratch/out" "$block" "$libraries/libnearcpu-torture.a" \
			"$libraries/libnearcpu-malloc.a" "$libraries/libnearcpu.a" -pthread
	else
		"$@" -o "$scratch/out" -c "$block"
	fi
	compiled=$((compiled + 1))
done
# The comments are what the program is to do besides.
blocks c "$scratch/readme" <"$source/README.md"
{
	cat "$scratch/readme.1.c"
	echo 'int main(void) { if (near_counter_init(&hits)) return 1; on_request();'
	echo 'return near_counter_read(&hits) != 1; }'
} >"$scratch/readme.c"
"$@" -o "$scratch/out" "$scratch/readme.c" "$libraries/libnearcpu.a" -pthread
"$scratch/out" || { echo "the README's example does not count" >&2 && exit 1; }

# shows PAGE EXAMPLE: a block of the page is the example without its licence line.
shows() {
	sed 1d "$source/examples/$2" >"$scratch/example"
	for block in "$scratch/$1".*.c; do
		! diff -wBq "$scratch/example" "$block" >/dev/null || return 0
	done
	diff -wB "$scratch/example" "$scratch/$1.1.c" >&2 || true
	echo "$1 does not show examples/$2" >&2
	exit 1
}
shows near_seq.7 sequence.h
shows near_torture.3 torture.c
shows near_abi.7 rust/src/near_abi.rs
echo "$compiled compiled"
[ $compiled -ge 7 ]
