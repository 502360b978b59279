#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: self_test.sh [CC]
# Gives terms.py, layers.py and names.py a small tree with and without faults, and man.py a copy of
# the headers and pages: each fault is reported.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cc=${1:-cc}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p tests/lint low high
cp "$here"/{terms.py,terms.list,layers.py,names.py} tests/lint
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
names() { find src tools -name '*.[ch]' | python3 tests/lint/names.py; }
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

mkdir -p src tools
library=src programs=tools
for file in a b; do
	echo 'static const int table[1] = {0}; static int (*hook)(void);
UNWATCHED static int list_take(const int *take) { return *take; }
static int list_give(int give);' >"$library/$file.c"
	echo 'static int take(void) { return 0; }' >"$programs/$file.c"
done
expect 'names, right' '' names
echo 'static __attribute__((section("x"), noinline)) int
take(void)' >"$library/c.c"
expect 'names, one word' "$library/c.c:1: take: one word" names
expect 'names, one word in three files' "^take: .* $library/c.c $programs/a.c $programs/b.c\$" names
echo 'INLINE int list_take(void);' >"$library/c.c"
expect 'names, three files' "^list_take: .* $library/a.c $library/b.c $library/c.c\$" names
echo 'NEAR__INLINE int near_list_take(void);' >"$library/c.c"
expect 'names, public' '' names
echo '/*
static int take(void); */' >"$library/c.c"
expect 'names, comment' '' names

mkdir -p scripts include man
cp -r "$here"/../../include/nearcpu include
cp "$here"/../../man/*.scd man
cp "$here"/../../scripts/man.py scripts
pages() { python3 scripts/man.py check; }
expect 'pages, right' '' pages
sed -i 's/EOVERFLOW/ERANGE/' man/near_sem.3.scd
expect 'error value' 'near_sem_post: the header has EOVERFLOW, the page ERANGE' pages
sed -i 's/near_sem_post(struct near_sem \*s)/near_sem_post(struct near_sem *other)/
	/^ \* Fallback: /d' include/nearcpu/sem.h
expect 'declaration' 'near_sem.3.scd: SYNOPSIS or CONTRACT is not that of the header' pages
expect 'row of a table' 'sem.h: the table of near_sem_init lacks Fallback:' pages
sed -i 's/^\*.*near_sem_read(.*//' man/near_sem.3.scd
expect 'function without a page' 'sem.h: near_sem_read is in the SYNOPSIS of no page' pages
