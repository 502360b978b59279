#!/bin/sh
# SPDX-License-Identifier: MIT
# Doxygen's filter: prints man page $1, which is written for scdoc, as Markdown.
exec awk '
# Bold is ** there, and a line break within a term is none.
function text(line) {
	gsub(/\\\*/, "\001", line)
	gsub(/\*/, "**", line)
	gsub(/\001/, "\\*", line)
	gsub(/</, "\\&lt;", line)
	return line
}
function put(line) {
	if (held != "") print (line ~ /^\t/ ? "- " held "<br>" : held)
	held = ""
	if (line ~ /^\t/) print "  " substr(line, 2)
	else if (line ~ /^  /) print " " line
	else if (line ~ /^\. /) print "1" line
	else if (line == "") print ""
	else held = line
}
NR == 1 { name = $1; next }
/^; / { next }
/^# NAME/ { title = 1; next }
title && / - / {
	print "# " substr($0, index($0, " - ") + 3) " {#" substr(name, 1, index(name, "(") - 1) "}"
	title = 0
	next
}
/^```/ { if (held != "") put(""); code = !code; print; next }
code { gsub(/\\\\/, "\\"); print; next }
/^# / { if (held != "") put(""); print "## " substr($0, 3); next }
!title { put(text($0)) }
END { put("") }
' "$1"
