#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: models/run.sh [WORD...]
# Checks the models in models/list, or only the lines that contain one of the words. The right ones
# must pass, and each broken variant must be caught by the violation that its line names.
#
# A checker, models/<checker>.sh, is called with the model and its switches in an empty directory.
# It prints "pass: what it covered" or "violated: what", and exits 0; it exits 77 with a line on
# standard error where its tool is missing, and 1 where it could not check. What it leaves in the
# directory $kept is there for the next call.
#
# JOBS lines at a time, by default one for each processor.
#
# Exit: 0 all as listed, 1 not so, 77 nothing wrong but a tool is missing.
set -u
here=$(cd "$(dirname "$0")" && pwd)

# as_listed EXPECTED GOT
as_listed() {
	case "$1:$2" in
	pass:pass:*) return 0 ;;
	pass:*) return 1 ;;
	*":violated: "*"$1"*) return 0 ;;
	*) return 1 ;;
	esac
}

# check CHECKER MODEL EXPECTED [SWITCH...]: says in one go what came out.
check() {
	checker=$1 model=$2 expected=$(echo "$3" | tr _ ' ')
	shift 3
	# What is broken is seen to be so before a better compilation has paid.
	if [ "$expected" = pass ]; then optimize=-O1; else optimize=-O0; fi
	export optimize
	run=$(mktemp -d "$scratch/run.XXXXXX") || exit 1
	got=$(cd "$run" && "$here/$checker.sh" "$here/$model" "$@" 2>"$run.errors")
	status=$?
	rm -rf "$run"
	if [ $status -eq 77 ]; then
		echo "skipped  $model $*: $(cat "$run.errors")"
	elif [ $status -eq 0 ] && as_listed "$expected" "$got"; then
		echo "ok       $model $*: $got"
	else
		echo "FAILED   $model $*: expected $expected; got: $got
$(cat "$run.errors")"
	fi
}

if [ "${1:-}" = --line ]; then
	# shellcheck disable=SC2086 # the line's words are the arguments
	check $2 </dev/null
	exit
fi

# wanted LINE WORD...: whether the line contains one of the words.
wanted() {
	line=$1
	shift
	[ $# -gt 0 ] || return 0
	for word; do
		case $line in *"$word"*) return 0 ;; esac
	done
	return 1
}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
export scratch kept="$scratch/kept"
mkdir "$kept" || exit 1

while read -r line; do
	case $line in '' | '#'*) continue ;; esac
	if wanted "$line" "$@"; then echo "$line"; fi
done <"$here/list" >"$scratch/lines"
if [ ! -s "$scratch/lines" ]; then
	echo "run.sh: no line of $here/list contains: $*" >&2
	exit 1
fi

xargs -d '\n' -n 1 -P "${JOBS:-$(nproc)}" "$here/run.sh" --line <"$scratch/lines" |
	tee "$scratch/results"
checked=$(wc -l <"$scratch/lines")
skipped=$(grep -c '^skipped ' "$scratch/results")
failed=$((checked - skipped - $(grep -c '^ok ' "$scratch/results")))
echo "$checked checked, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$skipped" -eq 0 ] || exit 77
