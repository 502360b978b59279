#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: with_module.sh FOLDER MODULE PACKAGE PYTHON SCRIPT [ARGUMENT...]
# Runs SCRIPT by PYTHON, which needs MODULE; where that is not installed, from PACKAGE of PyPI, in
# an environment in FOLDER that is kept. Exit code 77: it cannot be had.
set -eu
folder=$1 module=$2 package=$3 python=$4
shift 4
"$python" -c "import $module" 2>/dev/null && exec "$python" "$@"
if ! "$folder/bin/python3" -c "import $module" 2>/dev/null; then
	rm -rf "$folder"
	if ! { "$python" -m venv "$folder" &&
		"$folder/bin/python3" -m pip install --quiet "$package"; } >/dev/null 2>&1; then
		echo "skipped: no module $module, and no $package from PyPI (needs python3-venv)"
		exit 77
	fi
fi
exec "$folder/bin/python3" "$@"
