#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: models/run.sh [--turn N] [WORD...]
# Checks the models in models/list, or only the lines that contain one of the words. The right ones
# must pass, and each broken variant must be caught by the violation that its line names.
#
# models/checked records each line that came out as listed, with a hash of the line, its checker and
# the code of its model. Only this script writes it, at the end of a run. With --turn, a line whose
# hash models/checked records is checked in one turn of eight; all other lines are checked in each.
#
# A checker, models/<checker>.sh, is called with the model and its switches in an empty directory.
# It prints "pass: what it covered" or "violated: what", and exits 0; it exits 77 with a line on
# standard error where its tool is missing, and 1 where it could not check. What it leaves in the
# directory $kept is there for the next call.
#
# JOBS lines at a time, by default one for each processor.
#
# Exit: 0 all as listed, 1 not so, 2 wrong usage, 77 nothing wrong but a tool is missing.
set -u
turns=8
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

# code FILE: without its comments, if the compiler can remove them.
code() {
	"${CC:-cc}" -fpreprocessed -dD -E -P -x c "$here/$1" 2>/dev/null || cat "$here/$1"
}

# contents CHECKER MODEL: what a result depends on besides the switches.
contents() {
	grep -v '^[[:space:]]*#' "$here/$1.sh"
	code "$2"
	sed -n 's/^#include "\(.*\)"$/\1/p' "$here/$2" | while read -r header; do
		code "$header"
	done
}

# unknown_switch CHECKER MODEL SWITCH...: prints the first that nothing reads.
unknown_switch() {
	readers=$(contents "$1" "$2")
	shift 2
	for switch; do
		name=${switch#-D}
		echo "$readers" | grep -qw "${name%%=*}" || { echo "$switch" && return; }
	done
}

# check HASH CHECKER MODEL EXPECTED [SWITCH...]: prints the result in one write.
check() {
	hash=$1 checker=$2 model=$3 expected=$(echo "$4" | tr _ ' ')
	shift 4
	# A violation is found before a better compilation has paid.
	if [ "$expected" = pass ]; then optimize=-O1; else optimize=-O0; fi
	export optimize
	run=$(mktemp -d "$scratch/run.XXXXXX") || exit 1
	unknown=$(unknown_switch "$checker" "$model" "$@")
	if [ -n "$unknown" ]; then
		echo "nothing reads $unknown" >"$run.errors"
		got='' status=1
	else
		got=$(cd "$run" && "$here/$checker.sh" "$here/$model" "$@" 2>"$run.errors")
		status=$?
	fi
	rm -rf "$run"
	if [ $status -eq 77 ]; then
		echo "skipped  $model $*: $(cat "$run.errors")"
	elif [ $status -eq 0 ] && as_listed "$expected" "$got"; then
		echo "ok       $model $*: $got"
		echo "$hash" >>"$scratch/good"
	else
		echo "FAILED   $model $*: expected $expected; got: $got
$(cat "$run.errors")"
		echo "$hash" >>"$scratch/bad"
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

hash_of() {
	sha256sum | cut -c 1-32
}

# hash_lines: the lines of the list, each after its hash.
hash_lines() {
	last=''
	while read -r checker model rest; do
		case $checker in '' | '#'*) continue ;; esac
		if [ "$checker $model" != "$last" ]; then
			last="$checker $model" inputs=$(contents "$checker" "$model" | hash_of)
		fi
		# shellcheck disable=SC2086 # one blank between words, however they are laid out
		set -- $checker $model $rest
		echo "$(echo "$inputs $*" | hash_of) $*"
	done <"$here/list"
}

# is_due HASH: whether this turn checks the line; the lines that need not be are counted.
recorded=0
is_due() {
	[ -n "$turn" ] && grep -q "^$1 " "$here/checked" 2>/dev/null || return 0
	recorded=$((recorded + 1))
	[ $(((recorded + turn) % turns)) -eq 0 ]
}

# record: a line that came out as listed is in models/checked, and stays there until it does not.
record() {
	touch "$here/checked" && while read -r line; do
		hash=${line%% *}
		grep -qx "$hash" "$scratch/bad" && continue
		if grep -qx "$hash" "$scratch/good" || grep -q "^$hash " "$here/checked"; then
			echo "$line"
		fi
	done <"$scratch/all" >"$scratch/checked" &&
		if ! cmp -s "$scratch/checked" "$here/checked"; then
			cat "$scratch/checked" >"$here/checked"
		fi
}

turn=''
if [ "${1:-}" = --turn ]; then
	turn=${2:-}
	case $turn in '' | *[!0-9]*) echo "run.sh: --turn takes a number" >&2 && exit 2 ;; esac
	shift 2
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
export scratch kept="$scratch/kept"
mkdir "$kept" || exit 1

hash_lines >"$scratch/all"
while read -r line; do
	if wanted "$line" "$@" && is_due "${line%% *}"; then echo "$line"; fi
done <"$scratch/all" >"$scratch/lines"
if [ ! -s "$scratch/lines" ] && [ $# -gt 0 ]; then
	echo "run.sh: no line of $here/list contains: $*" >&2
	exit 1
fi

touch "$scratch/good" "$scratch/bad"
xargs -d '\n' -r -n 1 -P "${JOBS:-$(nproc)}" "$here/run.sh" --line <"$scratch/lines" |
	tee "$scratch/results"
record || echo "run.sh: $here/checked is not written" >&2
checked=$(wc -l <"$scratch/lines")
skipped=$(grep -c '^skipped ' "$scratch/results")
failed=$((checked - skipped - $(grep -c '^ok ' "$scratch/results")))
[ -z "$turn" ] || echo "models/checked records $(($(wc -l <"$scratch/all") - checked)) others"
echo "$checked checked, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
[ "$skipped" -eq 0 ] || exit 77
