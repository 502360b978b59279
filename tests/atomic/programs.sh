#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: programs.sh LIBRARY
# Real programs that are linked with GCC's libatomic.so.1 print the same with LIBRARY in its
# place; and their calls do go to it. A program that is not installed is left out, and named. Exit
# status 77: there is none.
set -euo pipefail
export LC_ALL=C
library=$(realpath "$1")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
ln -s "$library" libatomic.so.1
ran=()

fail() { echo "$*"; exit 1; }

# Each prints what does not depend on the moment. Here: the functions of libatomic that they call.

# compare_exchange, load and store, of any size.
run_jsc() { jsc "$here/programs.js"; }

# fetch_add_16 and fetch_sub_16, of a sort by several threads.
run_iitii() { iitii -T intervals -s 100000 -M 50000 -m 100 -D 10 -t 2 -d 4 2>&1; }

# The same. Its data are random: what goes in is what comes out.
run_mmmulti() { mmmulti -T pairs -s 200000 -M 1000000 -t 4 2>&1 | grep values; }

# The same again, to which search results do not owe their order.
run_mmseqs() {
	local i
	for i in 1 2 3 4 5 6 7 8; do
		printf '>s%d\nMKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVK%s\n' \
			"$i" "$(printf 'ALPDAQFEVV%.0s' $(seq "$i"))"
	done >sequences
	mmseqs easy-search sequences sequences found tmp --threads 2 >log 2>&1 ||
		{ cat log && return 1; }
	sort found
}

# Where the calls go: of each library to which a symbol of libatomic's was bound, its name.
bound() {
	sed -n "s/.*binding file .* to \(.*\) \[0\]: .* \[LIBATOMIC_1.*/\1/p" \
		bindings.* | sort -u
}

for program in jsc iitii mmmulti mmseqs; do
	if ! command -v "$program" >/dev/null; then
		echo "$program is not installed"
		continue
	fi
	"run_$program" >theirs || fail "$program fails by itself: $(tail -n 5 theirs)"
	LD_LIBRARY_PATH=$directory "run_$program" >ours 2>&1 ||
		fail "$program: status $?: $(tail -n 5 ours)"
	diff theirs ours >difference || fail "$program: $(head -n 10 difference)"
	rm -f bindings.*
	LD_LIBRARY_PATH=$directory LD_DEBUG=bindings LD_BIND_NOW=1 \
		LD_DEBUG_OUTPUT=$directory/bindings "run_$program" >/dev/null
	[[ $(bound) = "$directory/libatomic.so.1" ]] ||
		fail "$program: its calls go to '$(bound)'"
	ran+=("$program")
done
((${#ran[@]} > 0)) || { echo "no program that is linked with libatomic is installed"; exit 77; }
echo "as with GCC's: ${ran[*]}"
