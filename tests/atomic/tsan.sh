#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: tsan.sh CC LIBRARY...
# A program that is built with ThreadSanitizer, and a libatomic that is not (each argument is what
# the linker shall have for it): no race is reported but the one that there is.
set -euo pipefail
cc=$1
source=$(dirname "${BASH_SOURCE[0]}")/tsan_program.c
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$cc" -fsanitize=thread -x c - -o "$dir/empty" <<<'int main(void) { return 0; }' 2>"$dir/why" ||
	{ cat "$dir/why"; echo "skipped: no ThreadSanitizer"; exit 77; }
for libraries in "${@:2}"; do
	read -ra list <<<"$libraries"
	"$cc" -O2 -g -Wall -Werror -Wno-atomic-alignment -fsanitize=thread "$source" -pthread \
		-o "$dir/program" "${list[@]}" -Wl,-rpath,"$(dirname "${list[0]}")"
	# It wants its memory where this machine may put something else.
	run=(setarch -R "$dir/program")
	"${run[@]}" || { echo "$libraries: status $?"; exit 1; }
	"${run[@]}" race 2>"$dir/race" && exit 1
	grep -q "data race" "$dir/race"
done
