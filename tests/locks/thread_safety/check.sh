#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check.sh CLANG INCLUDE
# clang's -Wthread-safety accepts locks.c, and refuses each of its wrong variants.
set -euo pipefail
clang=$1 include=$2
source=$(dirname "${BASH_SOURCE[0]}")/locks.c

# compile LANGUAGE WRONG
compile() {
	"$clang" -x "${1%=*}" -std="${1#*=}" -fsyntax-only -Wall -Wextra -Wthread-safety -Werror \
		-pedantic -DWRONG="$2" -I"$include" "$source" 2>&1
}

for language in c=c11 c++=c++17; do
	output=$(compile $language 0) || { echo "$language, right: $output"; exit 1; }
	variants=$(grep -c 'WRONG == ' "$source")
	for ((wrong = 1; wrong <= variants; wrong++)); do
		output=$(compile $language "$wrong") &&
			{ echo "$language, WRONG=$wrong: nothing is found"; exit 1; }
		[[ $output = *-Wthread-safety* ]] || { echo "$language, $wrong: $output"; exit 1; }
	done
done
