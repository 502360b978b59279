#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: lists.sh [SOURCE]
# Compares lists: each public function is named in a man page and in a test, and the pages name no
# function that is not there. The keys of NEAR_CONF are those that its warnings list. The site's
# pages include their listings, from files that tests compile or run.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

# What the headers and libnearcpu-ffi declare or define outside of comments: near_x( behind a type,
# not near__x, and macros of that form.
public_functions() {
	cat include/nearcpu/*.h src/ffi/ffi.c | tr '\n' ' ' |
		sed 's|/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/| |g' | tr ';{}' '\n' |
		grep -oE '(NEAR__?(API|INLINE)|static inline) [a-z0-9_ ]*[ *]near_[a-z0-9]\w*\(' |
		sed -E 's/.*[ *](near_[a-z0-9_]*)[(]$/\1/' |
		sort -u - <(sed -nE 's/^#define (near_[a-z0-9]\w*)[(].*/\1/p' include/nearcpu/*.h)
}

words_of() {
	cat "$@" 2>/dev/null | grep -oE '\bnear_[a-z0-9][a-z0-9_]*' | sort -u
}

wrong=0
# report WHAT: prints it for each name on standard input.
report() {
	local name
	while read -r name; do
		echo "$name: $1"
		wrong=1
	done
}

# Names with a parenthesis behind them; types and macros have none.
called_in_pages() {
	cat man/*.scd | sed 's/[\\*]//g' |
		grep -oE '\bnear_[a-z0-9][a-z0-9_]*\(' | tr -d '(' | sort -u |
		while read -r name; do
			# near_seq(7) is a page.
			[[ -f man/$name.3.scd || -f man/$name.7.scd ]] || echo "$name"
		done | grep -vxF "$(defined_by_tracepoints)"
}

# Of the examples in pages.
defined_by_tracepoints() {
	sed -nE 's/^NEAR_TRACEPOINT\((\w+), (\w+),.*/near_trace_\1_\2/p' man/*.scd
}

functions=$(public_functions)
report "is in no test" < <(comm -23 <(echo "$functions") \
	<(words_of tests/*/*_test.c tests/*/*.h tests/cxx/*.cc tests/ffi/*.c))
report "is in no man page" < <(comm -23 <(echo "$functions") <(words_of man/*.scd))
report "is in a man page, but in no header" < <(comm -13 <(echo "$functions") <(called_in_pages))

# Each page with a wait says what a handler that interrupts it must not do.
report "has a wait, and does not mention siglongjmp" < <(
	grep -lE '^\*[a-z ]*near_.*(_until|sleep|synchronize|[a-z]_lock)\(' man/near_*.3.scd |
		grep -v near_cancel | xargs grep -L siglongjmp)

# As `key:value` or, where any number or text will do, `key:`.
keys_in_tables() {
	find src \( -name '*conf.c' -o -name '*stats.c' \) -exec cat {} + |
		sed -nE 's/^\t\{"([a-z_]+)", "?([a-z0-9]*|NEAR__CONF_[A-Z]+)"?, .*/\1:\2/p' |
		sed 's/NEAR__CONF_.*//' | sort -u
}
keys_in_command() {
	sed -nE 's/^\t\{"([a-z_]+)", "([^"]*)"\},/\1|\2/p' tools/nearcpu/common/settings.c |
		awk -F '|' '{ for (i = 2; i <= NF; i++) print $1 ":" ($i ~ /[A-Z]/ ? "" : $i) }' |
		sort -u
}
keys_in_page() {
	sed -n '/^# RSEQ/,/^# EXAMPLES/p' man/near_conf.7.scd |
		sed 's/:\*_[a-z]*_/:TEXT/g; s/[*_]*+\.\.\.//g' | tr -d '*' |
		grep -oE '\b[a-z_]+:[A-Za-z0-9|]+( \| [a-z_]+:[a-z0-9]+)*' |
		sed -E 's/ \| [a-z_]+:/|/g' | awk -F '[:|]' '
			{ for (i = 2; i <= NF; i++) print $1 ":" ($i ~ /[A-Z]/ ? "" : $i) }' |
		sort -u
}
report "is a setting, and not in tools/nearcpu/common/settings.c" < <(comm -23 <(keys_in_tables) \
	<(keys_in_command))
report "is in tools/nearcpu/common/settings.c, and no setting" < <(comm -13 <(keys_in_tables) \
	<(keys_in_command))
report "is a setting, and not in near_conf(7)" < <(comm -23 <(keys_in_tables) <(keys_in_page))
report "is in near_conf(7), and no setting" < <(comm -13 <(keys_in_tables) <(keys_in_page))
(($(keys_in_tables | wc -l) >= 20)) || report "settings found" <<<"too few"

# Blocks of code that are typed into a page, and files that no page shows.
typed_blocks() {
	find docs/site -name '*.md' ! -path docs/site/README.md -exec awk '
		BEGIN {
			allowed = "^[{](literalinclude|include|toctree|man-index|headers|note|" \
				"warning|tip)[}]"
		}
		FNR == 1 { fence = "" }
		/^ *(```+|~~~+)/ {
			mark = $1
			sub(/[^`~].*/, "", mark)
			if (fence != "") {
				if (index(mark, fence) == 1) fence = ""
				next
			}
			fence = mark
			info = substr($0, index($0, mark) + length(mark))
			if (info !~ /^text$/ && info !~ allowed) print FILENAME ":" FNR ": " $0
		}
		fence == "" && /^(    |\t)[^ ]/ && before == "" { print FILENAME ":" FNR ": " $0 }
		{ before = $0 }' {} +
}
report "is a block that is typed: include it from a file (docs/site/README.md)" < <(typed_blocks)
report "is shown by no page of docs/site" < <(for path in docs/site/sessions/*.session; do
	grep -rqF "sessions/${path##*/}" docs/site --include='*.md' || echo "$path"
done)

count=$(wc -l <<<"$functions")
echo "$count public functions"
((count >= 40 && wrong == 0))
