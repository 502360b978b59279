#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check.sh INCLUDE STANDARD COMPILER [FLAG...]
# Compiles each public header alone, and twice in one file, without a warning. The headers of one
# CPU alone are reached through the one that chooses among them.
set -euo pipefail

include=$1 standard=$2
shift 2

language=c
case $standard in
c++*) language=c++ ;;
esac

# The assembler sees a sequence only if its inline function is emitted.
emit=()
case $("$@" --version) in
*clang*) [[ $language = c ]] && emit=(-Wno-keyword-macro "-Dinline=inline __attribute__((used))") ;;
*) emit=(-fkeep-inline-functions) ;;
esac

# compile HEADER FLAG...
compile() {
	local header=$1
	shift
	printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
		"$@" -Wall -Wextra -pedantic -Werror -I"$include" -x "$language" -c -o /dev/null -
}

headers=0 failed=0
while read -r header; do
	headers=$((headers + 1))
	for level in -O0 -O2; do
		if ! compile "$header" "$@" "-std=$standard" "$level" "${emit[@]}"; then
			echo "$header does not compile alone as $standard with $level" >&2
			failed=$((failed + 1))
		fi
	done
done < <(cd "$include" && find nearcpu -name '*.h' ! -path 'nearcpu/detail/arch/*' | sort)

echo "$headers headers, $failed failed"
((headers > 0 && failed == 0))
