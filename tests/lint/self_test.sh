#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: self_test.sh [CC]
# Gives terms.py and layers.py a small tree with and without faults: each fault is reported.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cc=${1:-cc}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p tests/lint low high
cp "$here"/{terms.py,terms.list,layers.py} tests/lint
printf 'low\nhigh\n' >tests/lint/layers
: >tests/lint/layers.known
: >tests/lint/terms.allow

# expect NAME PATTERN COMMAND...: COMMAND prints a line with PATTERN; nothing if PATTERN is empty.
expect() {
	local name=$1 pattern=$2 output
	shift 2
	output=$("$@" 2>&1) || true
	if [[ -z $pattern && -n $output ]] || ! grep -qE -- "$pattern" <<<"$output"; then
		printf '%s: expected "%s", got:\n%s\n' "$name" "$pattern" "$output"
		exit 1
	fi
	echo "ok $name"
}
terms() { find low high -name '*.[ch]' | python3 tests/lint/terms.py "$@"; }
includes() { find low high -name '*.[ch]' | python3 tests/lint/layers.py includes; }
symbols() {
	local file
	rm -rf build
	for file in */*.c; do
		mkdir -p "build/CMakeFiles/x_objects.dir/$(dirname "$file")"
		"$cc" -c -o "build/CMakeFiles/x_objects.dir/$file.o" "$file"
	done
	python3 tests/lint/layers.py symbols build nm
}

echo '/* The lower file. */ int near_low(void) { return 0; }' >low/low.c
echo '/* The higher one. */ int near_low(void); int near_high(void) { return near_low(); }' \
	>high/high.c
echo '/* A header. */' >high/high.h
expect 'terms, right' '' terms
expect 'includes, right' '' includes
expect 'symbols, right' '' symbols

echo '/* Whoever waits is told
 * at once. */ int wary_low;' >low/words.c
for phrase in whoever told 'at once' wary; do
	expect "terms, '$phrase'" "words.c:[12]: $phrase ->" terms
done
printf 'low/\tat once\ttest\nlow/\tbarren\ttest\n' >tests/lint/terms.allow
expect 'terms, stale exception' "low/ does not say 'barren'" terms
rm low/words.c
: >tests/lint/terms.allow

echo '#include "../high/high.h"' >>low/low.c
expect 'include upwards' 'low/low.c -> high/high.h' includes
echo 'low/low.c -> high/high.h' >tests/lint/layers.known
expect 'known include' '' includes
sed -i '$d' low/low.c
expect 'stale include' 'no longer true: low/low.c' includes
: >tests/lint/layers.known

echo '/* . */ int near_high(void); int near_up(void) { return near_high(); }' >low/up.c
expect 'symbol upwards' 'low/up.c -> high/high.c: near_high' symbols
echo '/* . */ int near_up(void); int near_low2(void) { return near_up(); }' >low/down.c
echo '/* . */ int near_low2(void); int near_up(void) { return near_low2(); }' >low/up.c
expect 'cycle' 'cycle: low/down.c low/up.c' symbols
