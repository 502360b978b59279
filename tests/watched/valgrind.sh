#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: valgrind.sh VALGRIND CC INCLUDE LIBRARY SUPPRESSIONS
# helgrind and DRD report nothing of right programs: of counters in code that does not notify them,
# and, helgrind alone since DRD takes a minute, of all structures in code that does. The installed
# suppressions can be read.
set -euo pipefail
valgrind=$1 cc=$2 include=$3 library=$4 suppressions=$5
here=$(dirname "${BASH_SOURCE[0]}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

echo '#include <valgrind/helgrind.h>' | "$cc" -E -x c - >"$dir/out" 2>&1 ||
	{ echo "skipped: built without valgrind's headers"; exit 77; }

# build SOURCE FLAG...
build() {
	"$cc" -O2 -g -w -I"$include" "$here/$1" "${@:2}" "$library" -pthread -o "$dir/program"
}

# is_silent TOOL FLAG...
is_silent() {
	"$valgrind" "--tool=$1" "${@:2}" --fair-sched=try --error-exitcode=99 "$dir/program" \
		>"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
}

build counted.c
is_silent helgrind
is_silent drd "--suppressions=$suppressions"
build handover.c -DNEAR_VALGRIND=1
is_silent helgrind
