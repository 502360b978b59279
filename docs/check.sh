#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: check.sh DOXYGEN DOXYFILE DIRECTORY
# Makes the API pages in DIRECTORY, without a warning, and checks that their targets exist.
set -eu
rm -rf "$3"
mkdir -p "$3"
cd "$(dirname "$0")/.."
{ cat "$2" && echo "OUTPUT_DIRECTORY = $3"; } | "$1" -
exec python3 docs/links.py "$3/html"
