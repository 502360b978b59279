#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh NEARCPU PROFILED FOLDER
# Checks by Google's pprof, in Go, what nearcpu heap makes of the profiles of PROFILED
# (profiled.c): its package finds them valid and the same as the malloc's own files,
# and the command names the functions and their sums, also of two as a difference. FOLDER is for
# what is built. Exits with 77 where there is no Go, or its proxy cannot be reached.
set -euo pipefail

nearcpu=$1 profiled=$2 folder=$3
# shellcheck source=tests/support/go.sh
. "$(dirname "$0")/../../support/go.sh"

# has TEXT WORDS: a line of the text ends with these words.
has() {
	grep -qE "(^| )$2\$" <<<"$1" || {
		echo "no line with $2:"
		echo "$1"
		exit 1
	}
}

export PPROF_TMPDIR=$folder
go_check "$folder" pprof
go build -o "$folder/pprof" github.com/google/pprof

# By 1 every allocation is sampled, and the sums are exact. There is a profile in the middle, one at
# the end, and that of a child.
for sample in 4096 1; do
	rm -f "$folder"/*.heap "$folder"/*.pb
	NEAR_CONF=heap_profile:$folder/p,heap_sample:$sample,heap_signal:12 "$profiled"
	for file in "$folder"/*.heap; do
		"$nearcpu" heap "$file" >"$file.pb"
		"$folder/check" "$file" "$file.pb"
	done
done
first=$(ls "$folder"/*.0.heap)
last=${first%.0.heap}.1.heap
top() {
	"$folder/pprof" -symbolize=local -top "$@" 2>&1
}
used=$(top -unit=B "$first.pb")
has "$used" "Type: inuse_space"
has "$used" "2000000B .* site_small"
has "$used" "10485760B .* site_large"
has "$used" "1500000B .* site_freed_later"
has "$(top -sample_index=alloc_objects "$last.pb")" "15000 .* site_short_lived"
change=$(top -unit=B -base "$first.pb" "$last.pb")
has "$change" "-1500000B .* site_freed_later"
if grep -q site_small <<<"$change"; then
	echo "what is the same is no difference:"
	echo "$change"
	exit 1
fi
