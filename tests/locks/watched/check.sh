#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check.sh VALGRIND CC INCLUDE LIBRARY
# helgrind and DRD report nothing of the right program, and the race of the wrong one.
set -euo pipefail
valgrind=$1 cc=$2 include=$3 library=$4
source=$(dirname "${BASH_SOURCE[0]}")/program.c
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

echo '#include <valgrind/helgrind.h>' | "$cc" -E -x c - >"$dir/out" 2>&1 ||
	{ echo "skipped: built without valgrind's headers"; exit 77; }
"$cc" -O2 -g -Wall -Wextra -Werror -DNEAR_VALGRIND=1 -I"$include" "$source" "$library" -pthread \
	-o "$dir/program"
for tool in helgrind drd; do
	run=("$valgrind" "--tool=$tool" --fair-sched=try --error-exitcode=99)
	"${run[@]}" "$dir/program" >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
	grep -q 'ERROR SUMMARY: 0 errors' "$dir/out"
	status=0
	"${run[@]}" "$dir/program" race >"$dir/out" 2>&1 || status=$?
	((status == 99)) || { echo "$tool does not find the race"; cat "$dir/out"; exit 1; }
done
