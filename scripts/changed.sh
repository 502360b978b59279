# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: what ./dev test --changed runs.
#
# tests/lint/layers ranks the folders: a change can affect its own folder and those of a higher
# rank. Of all of these the tests of the first tier run as the machine is, of the folder alone also
# the other modes with gcc and the sanitizers. Models, headers, documents and ./dev itself are
# checked if they have changed. This leaves out clang, other CPUs and C libraries, valgrind, and
# what takes turns.

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

# The ranks, the lowest first: in each line the areas, which are folders of tests/ too, and headers.
layers() {
	sed -n '/^#/d; s|include/nearcpu/arch|arch|; s|tools/[a-z_/]*|tool|g; s|bench[a-z/]*|tool|g
		s|src/||g; s|/[a-z]*||g; s|:||; p' tests/lint/layers
}

# areas_above AREA-OR-HEADER: those of a higher rank, and those of a header's own rank; "all" for
# what has no rank.
areas_above() {
	local line name found=''
	while read -r line; do
		if [[ -z $found && " $line " = *" $1 "* ]]; then
			found=yes
			[[ $1 = *.h ]] || continue
		fi
		for name in ${found:+$line}; do
			[[ $name = *.h ]] || echo "$name"
		done
	done < <(layers)
	[[ $found ]] || echo all
}

# area_of FILE: the area or the header whose tests and users it affects.
area_of() {
	local name=${1#*/}
	case $1 in
	include/nearcpu/arch/*) echo arch ;;
	include/nearcpu/*) echo "${1##*/}" ;;
	src/*/*) echo "${name%%/*}" ;;
	bench/* | tools/*) echo tool ;;
	tests/lint/* | tests/dev.sh | tests/models.sh | tests/lists.sh) ;;
	tests/*/*) echo "test:${name%%/*}" ;;
	examples/* | lab/*) echo "test:${1%%/*}" ;;
	models/* | docs/* | man/* | scripts/* | dev | .ci/* | *.md | LICENSE) ;;
	*) echo all ;;
	esac
}

# labels_of AREA-OR-HEADER: those of the tests of what it is.
labels_of() {
	local name
	case $1 in
	all | support | cmocka | ops | trap) echo '.*' ;;
	arch) printf 'in_%s\n' emu torture compile ;;
	percpu) printf 'in_%s\n' percpu emu storm examples ;;
	malloc) printf 'in_%s\n' malloc dropin cxx ;;
	tool) printf 'in_%s\n' tool check ;;
	*.h)
		printf 'in_%s\n' cxx examples
		for name in $(layers | grep -wF "$1"); do
			[[ $name = *.h ]] || labels_of "$name"
		done
		;;
	*) echo "in_$1" ;;
	esac
}

# pattern AREA-OR-HEADER...: a pattern of the labels of their tests.
pattern() {
	local area
	for area; do labels_of "$area"; done | sort -u | paste -s -d '|'
}

# select_changed REVISION: sets modes, affected, affected_first, targets and BEHIND.
select_changed() {
	local text files area file own=() above=()
	git rev-parse --git-dir >/dev/null || fail "--changed needs a git repository"
	git rev-parse --quiet --verify --end-of-options "$1^{commit}" >/dev/null ||
		bad_usage "--changed: git knows no revision '$1'"
	text=$(changed_files "$1")
	[[ $text ]] || { say "dev: nothing differs from $1" && exit 0; }
	mapfile -t files <<<"$text"
	while read -r area; do
		own+=("${area#test:}")
		[[ $area = test:* ]] || mapfile -t -O "${#above[@]}" above < <(areas_above "$area")
	done < <(for file in "${files[@]}"; do area_of "$file"; done | sort -u)
	modes+=(lint)
	if ((${#own[@]} > 0)); then
		modes+=(machine gcc asan tsan)
		BEHIND+='|rseq_off'
		affected=$(pattern "${own[@]}")
		affected_first=$(pattern "${own[@]}" "${above[@]}")
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
