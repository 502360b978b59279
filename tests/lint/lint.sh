#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: lint.sh [--light | --list-formatted]
# Checks the sources and prints one line per check: ok, FAILED or skipped. --light leaves
# clang-tidy out, which needs build/clang/compile_commands.json. --list-formatted prints the files
# that clang-format lays out.
# shellcheck disable=SC2317 # the checks are called by name
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

failed=0

# The files of the repository, tracked or not yet, that match the patterns.
files() {
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files --cached --others --exclude-standard -- "$@" | sort -u |
			while read -r file; do [[ ! -f $file ]] || echo "$file"; done
	else
		find . -path ./build -prune -o -type f -print | sed 's|^\./||' | sort |
			while read -r file; do
				for pattern in "$@"; do
					# shellcheck disable=SC2053 # the pattern is one
					[[ $file != $pattern ]] || { echo "$file" && break; }
				done
			done
	fi
}

# The operations of one CPU are laid out by hand, one a line.
formatted() {
	files '*.c' '*.h' '*.cc' | grep -v '^include/nearcpu/detail/arch/'
}

scripts() {
	files '*.sh' dev .ci/run
}

check_format() {
	formatted | xargs -r -n 16 -P "$(nproc)" clang-format --dry-run --Werror
}

check_tidy() {
	[[ -f build/clang/compile_commands.json ]] || {
		echo "run 'cmake --preset clang' first"
		return 1
	}
	formatted | grep -E '^(src|tools|bench)/.*\.c$' |
		xargs -r -n 4 -P "$(nproc)" clang-tidy --quiet -p build/clang 2>/dev/null
}

check_scripts() {
	scripts | xargs -r shellcheck
}

check_spelling() {
	files '*.c' '*.h' '*.cc' '*.md' '*.scd' '*.sh' '*.py' '*.txt' '*.cmake' '*.in' dev .ci/run |
		xargs -r codespell --ignore-words-list=ist,nd,mis,creat,fo,crate
}

check_licence() {
	local file
	files '*.c' '*.h' '*.cc' '*.S' '*.sh' '*.py' '*.cmake' '*.txt' '*.map' '*.pml' dev .ci/run |
		while read -r file; do
			head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
				echo "$file: no licence line at the top"
		done
}

# Code and comments fit 100 columns; a tab counts to the next multiple of 8.
check_width() {
	local file
	files '*.c' '*.h' '*.cc' '*.sh' '*.py' '*.cmake' '*.txt' dev .ci/run |
		while read -r file; do
			expand "$file" | awk -v file="$file" '
				length > 100 { print file ":" NR ": " length " columns" }'
		done
}

# Functions start and end with a brace in column 1.
check_length() {
	files '*.c' '*.h' '*.cc' '*.py' '*.sh' dev | xargs -r awk '
		FNR == 1 { if (lines > 600) print file ": " lines " lines"; file = FILENAME }
		{ lines = FNR }
		/^\{/ { start = FNR }
		/^\}/ && start {
			if (FNR - start - 1 > 40)
				print FILENAME ":" start ": a function of " FNR - start - 1 " lines"
			start = 0
		}
		END { if (lines > 600) print file ": " lines " lines" }'
}

# Below the licence line, a C file states what it is.
check_opening() {
	local file
	files '*.c' '*.cc' | while read -r file; do
		sed -n 2p "$file" | grep -qE '^(/\*|//) ?[A-Za-z_"/]' ||
			echo "$file:2: no comment that states what the file is"
	done
}

# No #include of a higher layer; the test `layers` checks the symbols.
check_layers() {
	files '*.c' '*.h' | python3 tests/lint/layers.py includes
}

# Standard terms, at most 2 hits of terms.list per 1,000 words.
check_terms() {
	files '*' | python3 tests/lint/terms.py
}

# Static functions are named by their object and what is done; two files may have the same name.
check_names() {
	files '*.c' '*.h' | python3 tests/lint/names.py
}

# Paths in comments and pages exist.
check_paths() {
	files '*' | grep -v '^tests/cxx/CMakeLists.txt$' | python3 tests/lint/paths.py
}

# Only one directory depends on the CPU.
check_arch() {
	local cpus='x86_64|amd64|i386|aarch64|arm|riscv|powerpc|s390'
	files 'src/*.[ch]' 'include/*.h' 'tools/*.[ch]' | grep -v '^include/nearcpu/detail/arch/' |
		xargs -r grep -nE "^[[:space:]]*#[[:space:]]*(el)?if.*__($cpus)"
}

# One function has the time of the width that the system call takes. Benchmarks, which measure the
# call itself, wait without a time.
check_futex() {
	files {src,include,tools,tests,examples,lab}/'*.[ch]' |
		grep -v '^src/base/futex.c$' |
		xargs -r grep -nE '\bsyscall\([^,]*\b(SYS|NR)_futex|\bSYS_FUTEX'
	files 'bench/*.[ch]' | xargs -r grep -nE 'SYS_futex' | grep -v 'NULL, NULL, 0);'
}

# Loose ends, and trailing blanks.
check_ends() {
	files '*.c' '*.h' '*.cc' '*.sh' '*.py' '*.cmake' '*.md' '*.scd' '*.txt' dev .ci/run |
		grep -v '^tests/lint/' | xargs -r grep -nE '\b(TODO|FIXME|XXX)\b|[[:blank:]]+$'
}

# The pages have what the headers declare, their tables, and their error values.
check_pages() {
	python3 scripts/man.py check
}

# Each source and each test is in the list of the build.
check_lists() {
	local name list
	while read -r name; do
		grep -qw "$name" CMakeLists.txt || echo "$name is not in CMakeLists.txt"
	done < <(files 'src/*.c')
	while read -r name; do
		list=${name%/*}/CMakeLists.txt
		grep -qE "near_add_test\\($(basename "$name" _test.c)\b" "$list" ||
			echo "$name is not in $list"
	done < <(files 'tests/*_test.c')
}

# run NAME TOOL CHECK: TOOL is what the check needs, or -. A check fails by its status, one that
# needs no tool by printing something.
run() {
	local name=$1 tool=$2 output status=0
	if [[ $tool != - ]] && ! command -v "$tool" >/dev/null; then
		echo "skipped $name: $tool is missing"
		return
	fi
	output=$("$3" 2>&1) || status=$?
	[[ $tool = - ]] && status=${#output}
	if ((status == 0)); then
		echo "ok $name"
	else
		printf '%s\n' "$output"
		echo "FAILED $name"
		failed=1
	fi
}

case ${1:-} in
--list-formatted)
	formatted
	exit
	;;
--light | '') ;;
*)
	echo "usage: lint.sh [--light | --list-formatted]" >&2
	exit 2
	;;
esac

run format clang-format check_format
run scripts shellcheck check_scripts
run spelling codespell check_spelling
run licence - check_licence
run width - check_width
run length - check_length
run opening - check_opening
run layers - check_layers
run terms - check_terms
run names - check_names
run paths - check_paths
run architectures - check_arch
run futex - check_futex
run loose-ends - check_ends
run pages - check_pages
run lists - check_lists
[[ ${1:-} = --light ]] || run tidy clang-tidy check_tidy
exit "$failed"
