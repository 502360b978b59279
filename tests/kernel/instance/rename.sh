#!/bin/sh
# SPDX-License-Identifier: MIT
# rename.sh LD NM OBJCOPY OUTPUT ARCHIVE OBJECT...: links all objects into one, and gives the state
# that copies of the library share the names of another version, whose number it gets in its note
# and in front of its vfork as well.
set -eu
ld=$1 nm=$2 objcopy=$3 output=$4 archive=$5
shift 5
"$ld" -r -o "$output.all" "$@" --whole-archive "$archive"
"$nm" "$output.all" |
	awk '$2 == "u" && $3 != "near__first" { print $3, $3 "_other" }' >"$output.names"
grep -q near__self "$output.names"
"$objcopy" --redefine-syms="$output.names" "$output.all" "$output.renamed"
LC_ALL=C sed -e 's/\(Nearcpu\x00....\)[^\x00]\x00\x00\x00/\1\x63\x00\x00\x00/' \
	-e 's/\(near\)[^\x00]\x00\x00\x00/\1\x63\x00\x00\x00/' "$output.renamed" >"$output"
has_mark() { LC_ALL=C grep -aqP "$1\x63\x00\x00\x00" "$output"; }
has_mark 'Nearcpu\x00....'
# Where no sequences are known the library has no vfork.
! "$nm" "$output.all" | grep -q ' T vfork$' || has_mark near
