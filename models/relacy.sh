#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: models/relacy.sh MODEL.cc [-Dswitch...]: see run.sh.
# Passes if no execution that was tried violates anything; rseq.h sets how many are tried. The
# program is compiled once for all lines of the list; by two of them, if they begin together.
set -u

if [ ! -f /usr/include/relacy/relacy.hpp ]; then
	echo "relacy is not installed (Debian package relacy-dev)" >&2
	exit 77
fi

model=$1
shift
program=${kept:-.}/$(basename "$model" .cc)
# Relacy jumps between stacks, which the checks of _FORTIFY_SOURCE take for an error.
if [ ! -x "$program" ]; then
	"${CXX:-c++}" -std=c++17 -O1 -w -U_FORTIFY_SOURCE -o "$program.$$" "$model" >&2 &&
		mv "$program.$$" "$program" || exit 1
fi
exec "$program" "$@"
