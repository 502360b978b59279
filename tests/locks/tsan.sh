#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: tsan.sh CC INCLUDE LIBRARY...
# A program that is built with ThreadSanitizer, and a library that is not: no race is reported but
# the one that there is.
set -euo pipefail
cc=$1 include=$2
source=$(dirname "${BASH_SOURCE[0]}")/tsan_program.c
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$cc" -fsanitize=thread -x c - -o "$dir/empty" <<<'int main(void) { return 0; }' 2>"$dir/why" ||
	{ cat "$dir/why"; echo "skipped: no ThreadSanitizer"; exit 77; }
for library in "${@:3}"; do
	"$cc" -O2 -g -Wall -Werror -fsanitize=thread -I"$include" "$source" -pthread \
		-o "$dir/program" "$library" -Wl,-rpath,"$(dirname "$library")"
	# It wants its memory where this machine may put something else.
	run=(setarch -R "$dir/program")
	"${run[@]}" || { echo "$library: status $?"; exit 1; }
	"${run[@]}" race 2>"$dir/race" && exit 1
	grep -q "data race" "$dir/race"
done
