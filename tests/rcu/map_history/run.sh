#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh RECORD FOLDER
# Checks by porcupine, in Go, that histories of near_rcu_map64 and of near_rcu_map, which RECORD
# prints, are linearizable, and that it refuses wrong ones. FOLDER is for what is built. Exits with
# 77 where there is no Go, or its proxy cannot be reached.
set -euo pipefail

record=$1 folder=$2
# shellcheck source=tests/support/go.sh
. "$(dirname "$0")/../../support/go.sh"

# wrong OPERATION...: a history of one key, in which each ends before the next one begins, or with +
# after that has begun, is refused.
wrong() {
	local time=0 operation
	for operation; do
		if [[ $operation = +* ]]; then
			echo "0 1 $((time - 1)) $((time + 2)) ${operation#+}"
		else
			echo "0 1 $((time + 1)) $((time + 2)) $operation"
		fi
		time=$((time + 2))
	done | "$folder/check" wrong
}

go_check "$folder" porcupine

wrong "put 0 5 0" "get 0 0 0"                         # an update is not seen,
wrong "put 0 5 0" "put 0 6 5" "get 0 0 5"             # or one before it
wrong "put 0 5 0" "get 0 0 6"                         # a value from nowhere
wrong "insert 0 5 0" "+insert 0 6 0"                  # two insertions succeed
wrong "put 0 5 0" "cas 5 6 5" "+cas 5 7 5"            # two replace the same value
wrong "put 0 5 0" "cas 5 0 5" "+put 0 0 5"            # two remove it
wrong "put 0 5 0" "cas_fails 5 6 -1" "get 0 0 5"      # it was expected
wrong "put 0 5 0" "get 0 0 6" "+put 0 6 5" "get 0 0 5" # back again

for map in map64 rcu_map; do
	"$record" $map "${HISTORIES:-1500}" >"$folder/$map"
	"$folder/check" <"$folder/$map"
done
