# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: what ./dev test --changed runs.
#
# Of the folders that a change can affect (scripts/affected.py) the tests of the first tier run as
# the machine is, of the folder alone also the other modes with gcc and the sanitizers. Models,
# headers, documents and ./dev itself are checked if they have changed. This leaves out clang, other
# CPUs and C libraries, valgrind, and what takes turns.

# The libraries that tests open or link by name.
LIBRARIES=(nearcpu nearcpu-alloc nearcpu-alloc_static nearcpu-ffi nearcpu-ffi_static nearcpu-malloc
	nearcpu-malloc_static nearcpu-torture nearcpu-atomic nearcpu-atomic_static near_libatomic
	near_libatomic_static)

# changed_files REVISION: what differs from it, and what git does not know yet. A file that moved is
# listed at both places, since it affects the tests of both folders.
changed_files() {
	git diff --name-only --no-renames --relative "$1" -- &&
		git ls-files --others --exclude-standard
}

# select_changed REVISION: sets modes, affected, affected_first, targets and BEHIND.
select_changed() {
	local text files area
	git rev-parse --git-dir >/dev/null || fail "--changed needs a git repository"
	git rev-parse --quiet --verify --end-of-options "$1^{commit}" >/dev/null ||
		bad_usage "--changed: git knows no revision '$1'"
	text=$(changed_files "$1")
	[[ $text ]] || { say "dev: nothing differs from $1" && exit 0; }
	mapfile -t files <<<"$text"
	text=$(python3 scripts/affected.py "${files[@]}") ||
		fail "--changed: scripts/affected.py, which needs python3, fails"
	affected=$(sed -n 1p <<<"$text")
	affected_first=$(sed -n 2p <<<"$text")
	modes+=(lint)
	if [[ $affected ]]; then
		modes+=(machine gcc asan tsan)
		BEHIND+='|rseq_off'
		targets=("${LIBRARIES[@]}")
		for area in ${affected//[|.*]/ }; do
			area=${area#in_}
			[[ ! -f tests/$area/CMakeLists.txt ]] || targets+=("tests/$area/all")
			[[ $area != tool ]] || targets+=(nearcpu_tool)
			[[ $area != examples ]] || targets+=(examples/all)
		done
		[[ $affected != *'.*'* ]] || targets=()
	else
		targets=(man) # the tests of headers and documents need no program
	fi
	text=" ${files[*]}"
	if [[ "$text " =~ \ (include/|docs/|man/|scripts/|dev\ |[A-Z]*\.md\ |[a-z]*/[a-z]*\.sh\ ) ||
		$text = *" tests/headers/"* ]]; then
		modes+=(machine)
		affected_first+="${affected_first:+|}headers"
		affected+="${affected:+|headers}"
	fi
	[[ $text != *" models/"* ]] || modes+=(models)
	say "dev: files that differ from $1: ${#files[@]}" \
		"${affected_first:+- tests: $affected_first}"
}
