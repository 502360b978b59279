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
# Exit: 0 all as listed, 1 not so, 77 nothing wrong but a tool is missing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
export kept="$scratch/kept"
mkdir "$kept" || exit 1

checked=0 failed=0 skipped=0

# as_listed EXPECTED GOT
as_listed() {
	case "$1:$2" in
	pass:pass:*) return 0 ;;
	pass:*) return 1 ;;
	*":violated: "*"$1"*) return 0 ;;
	*) return 1 ;;
	esac
}

# check CHECKER MODEL EXPECTED [SWITCH...]
check() {
	checker=$1 model=$2 expected=$(echo "$3" | tr _ ' ')
	shift 3
	mkdir "$scratch/run" || exit 1
	got=$(cd "$scratch/run" && "$here/$checker.sh" "$here/$model" "$@" 2>"$scratch/errors")
	status=$?
	rm -rf "$scratch/run"
	checked=$((checked + 1))
	if [ $status -eq 77 ]; then
		skipped=$((skipped + 1))
		echo "skipped  $model $*: $(cat "$scratch/errors")"
	elif [ $status -eq 0 ] && as_listed "$expected" "$got"; then
		echo "ok       $model $*: $got"
	else
		failed=$((failed + 1))
		echo "FAILED   $model $*: expected $expected; got: $got"
		cat "$scratch/errors"
	fi
}

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

while read -r line; do
	case $line in '' | '#'*) continue ;; esac
	# shellcheck disable=SC2086 # the line's words are the arguments
	wanted "$line" "$@" && check $line </dev/null
done <"$here/list"

echo "$checked checked, $failed failed, $skipped skipped"
if [ $checked -eq 0 ]; then
	echo "run.sh: no line of $here/list contains: $*" >&2
	exit 1
fi
[ $failed -eq 0 ] || exit 1
[ $skipped -eq 0 ] || exit 77
