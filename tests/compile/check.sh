#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check.sh INCLUDE COMPILER [FLAG...]
# Sources that must compile (good_*, inlined), and sources that must not, with the words of the
# error that each names in its second line, and in the third how often it comes, or which compiler
# does not see it. The right sequences also compile for a 32-bit CPU, if the compiler has one; with
# -masm=intel they do not.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")

include=$1
shift
object=$(mktemp)
trap 'rm -f "$object"' EXIT

compile() {
	local source=$1
	shift
	LC_ALL=C "$@" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$include" -c -o "$object" \
		"$source" 2>&1
}

files=0 failed=0
wrong() {
	echo "$1: $2"
	failed=$((failed + 1))
}

for source in "$here"/*.c; do
	name=$(basename "$source" .c)
	words=$(sed -n 's|^/\* expect: \(.*\) \*/$|\1|p' "$source")
	times=$(sed -n 's|^/\* times: \(.*\) \*/$|\1|p' "$source")
	not=$(sed -n 's|^/\* not: \(.*\) \*/$|\1|p' "$source")
	[[ -z $not || $(basename "$1") != "$not"* ]] || continue
	status=0
	output=$(compile "$source" "$@") || status=$?
	case $name in
	good_* | inlined)
		((status == 0)) || wrong "$name" "does not compile: $output"
		[[ $name != inlined ]] || ! nm "$object" | grep ' t near_' ||
			wrong "$name" "an operation is not inlined"
		;;
	*)
		((status != 0)) || wrong "$name" "compiles"
		[[ $output = *"$words"* ]] || wrong "$name" "no '$words' in: $output"
		[[ -z $times ]] ||
			(($(grep -c ": [Ee]rror: nearcpu: $words" <<<"$output") == times)) ||
			wrong "$name" "not $times times '$words' in: $output"
		;;
	esac
	files=$((files + 1))
done

# Freestanding: the C library's headers for 32 bits may not be there.
bits_32=("$@" -m32 -ffreestanding)
if compile - "${bits_32[@]}" -x c >/dev/null <<<'#include <stdint.h>
#ifndef __i386__
#error another CPU
#endif
_Static_assert(sizeof(uint64_t) == 8 && sizeof(void *) == 4, "headers for 64 bits");'; then
	output=$(compile "$here/good_sequences.c" "${bits_32[@]}" -O0) ||
		wrong good_sequences "does not compile for 32 bits: $output"
	files=$((files + 1))
fi

# The sequences of x86_64 are in AT&T syntax.
if compile - "$@" -x c >/dev/null <<<'#ifndef __x86_64__
#error another CPU
#endif'; then
	output=$(compile "$here/inlined.c" "$@" -masm=intel) &&
		wrong inlined "compiles with -masm=intel"
	words='nearcpu: compile without -masm=intel'
	[[ $output = *"$words"* ]] || wrong inlined "no '$words' in: $output"
fi

echo "$files sources, $failed failed"
((files > 10 && failed == 0))
