#!/bin/sh
# SPDX-License-Identifier: MIT
# Doxygen's filter: prints header $1 with its plain comments as documentation. The text of the
# first one keeps its columns, tables and examples.
exec awk '
NR == 1 && /SPDX/ { print ""; next }
!opened && /^\/\* / {
	opened = intro = 1
	print "/** @file"
	sub(/^\/\* /, " * ")
	print
	next
}
intro && !verbatim && /^ \*$/ { verbatim = 1; print " * @verbatim"; next }
verbatim && !/^ \*\// { sub(/^ \* ?/, "") }
intro && /\*\// {
	if (verbatim) {
		sub(/ *\*\//, "")
		if ($0 != "") print
		print "@endverbatim */"
	} else {
		print
	}
	intro = verbatim = 0
	next
}
/^\t*\/\* / && !/\\$/ && !/clang-format/ { sub(/\/\* /, "/** ") }
/;.*\/\* .*\*\/$/ { sub(/\/\* /, "/**< ") }
{ print }
' "$1"
