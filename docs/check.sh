#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check.sh DOXYGEN DOXYFILE DIRECTORY [STATUS]
# Makes the site in DIRECTORY/html, without a warning, and checks its links: the API pages by
# Doxygen, in html/api, all others by Sphinx, which site/requirements.txt has from PyPI. Without
# PyPI there are the API pages alone, and the exit status is STATUS, or 0.
set -eu
rm -rf "$3"
cd "$(dirname "$0")/.."
mkdir -p "$3/html" build
venv=build/docs-venv wanted=docs/site/requirements.txt

# Made once for each list of versions, in a folder of its own until it is whole.
make_venv() {
	! cmp -s "$wanted" "$venv/made-of" || return 0
	rm -rf "$venv"
	python3 -m venv "$venv" >/dev/null &&
		"$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
			--timeout 15 --no-deps --only-binary :all: -r "$wanted" &&
		cp "$wanted" "$venv/made-of"
}

{ cat "$2" && printf 'OUTPUT_DIRECTORY = %s\nHTML_OUTPUT = html/api\n' "$3"; } | "$1" -
exec 9>build/docs-venv.lock # another run may be making it
flock 9
if make_venv >"$3/venv.log" 2>&1; then
	flock -u 9
	"$venv/bin/sphinx-build" --quiet --fail-on-warning --keep-going --nitpicky -b html \
		-c docs/site -d "$3/doctrees" . "$3/html"
	cp docs/site/start.html "$3/html/index.html"
else
	tail -n 1 "$3/venv.log" >&2
	echo "PyPI has not given the generator of the site (all of it: $3/venv.log):" \
		"these are the API pages alone" >&2
fi
python3 docs/links.py "$3/html"
[ -f "$3/html/index.html" ] || exit "${4:-0}"
