#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: listing.sh NAME [ARGUMENT...]
# Runs the listing NAME, and prints what the test compares. 77: skipped.
#   lttng_ours BIN PROGRAM     BIN has nearcpu
#   lttng_theirs PROGRAM
#   prometheus_ours BIN LIB    LIB has libnearcpu-ffi
#   prometheus_theirs
set -eu
here=$(dirname "$0") name=$1 started=''
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"; [ -z "$started" ] || kill "$started"' EXIT

skip() {
	echo "skipped: $*"
	exit 77
}

# Fields alone, in one form: id=1 customer=alice total=2.5.
orders() {
	sed -n 's/.*shop:order.*\(id = \|id=\)/id=/p' "$1" | sed 's/ }//; s/,//g; s/ = /=/g; s/"//g'
}

# A daemon that there is already gets the session.
lttng_daemon() {
	! lttng --no-sessiond list >/dev/null 2>&1 || return 0
	lttng-sessiond --no-kernel --quiet >/dev/null 2>&1 &
	started=$!
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		sleep .5
		! lttng --no-sessiond list >/dev/null 2>&1 || return 0
	done
	skip "lttng-sessiond does not start"
}

python_with_client() {
	for python in python3 /usr/bin/python3; do
		! "$python" -c 'import prometheus_client' 2>/dev/null || return 0
	done
	skip "no python3-prometheus-client"
}

case $name in
lttng_ours)
	PATH=$1:$PATH
	sh "$here/$name.sh" "$2" "$scratch/trace" >"$scratch/out" 2>"$scratch/err" || {
		cat "$scratch/err"
		exit 1
	}
	orders "$scratch/out"
	;;
lttng_theirs)
	for program in lttng lttng-sessiond babeltrace2; do
		command -v $program >/dev/null || skip "no $program"
	done
	export LTTNG_HOME="$scratch"
	lttng_daemon
	sh "$here/$name.sh" "$1" "$scratch/trace" >"$scratch/out" || {
		cat "$scratch/out"
		exit 1
	}
	orders "$scratch/out"
	;;
prometheus_ours)
	PATH=$1:$PATH LD_LIBRARY_PATH=$2 python3 "$here/$name.py" "$scratch/region" | grep -v '^#'
	;;
prometheus_theirs)
	python_with_client
	PROMETHEUS_MULTIPROC_DIR=$scratch "$python" "$here/$name.py" | grep -v '^#'
	;;
esac
