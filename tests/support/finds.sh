#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: finds.sh [--runs N] [--seconds N] [--says PATTERN] FAULT... -- PROGRAM [ARGUMENT...]
# Passes if PROGRAM finds each FAULT, and nothing with the fault `none`. The environment variable
# NEAR_MUTANT has its name; after a colon follow more arguments of the program, as in
# 'fence:--scenario pair'.
#
# The program finds a fault if it fails, or is stopped by what the library notices; a fault may also
# make it wait without end, so a run is killed after --seconds (60), which finds nothing. A fault
# shows by chance: there are up to --runs (5). With --says the output must match a pattern, too.
# Exits with 77 if the machine lacks what a fault needs, and has found all others.
set -u
runs=5 seconds=60 pattern='' faults=()
while (($#)); do
	case $1 in
	--runs) runs=$2 && shift 2 ;;
	--seconds) seconds=$2 && shift 2 ;;
	--says) pattern=$2 && shift 2 ;;
	--) shift && break ;;
	*) faults+=("$1") && shift ;;
	esac
done
((${#faults[@]} && $#)) || exit 2
lacks=0

# run FAULT[:ARGUMENTS] PROGRAM...: 0 if the program finds it, 1 if not, 77 if it cannot.
run() {
	local fault=${1%%:*} limit=$seconds more=() out status
	[[ $1 != *:* ]] || read -ra more <<<"${1#*:}"
	shift
	[[ $fault != none ]] || limit=600
	out=$(NEAR_MUTANT=$fault timeout -s KILL "$limit" "$@" "${more[@]}" 2>&1)
	status=$?
	printf '%s\n%s: status %s\n' "$out" "$fault" "$status"
	if [[ $fault = none ]]; then
		((status)) || return 1
		return $((status == 77 ? 77 : 0))
	fi
	case $status in
	77) return 77 ;;
	0 | 124 | 137) return 1 ;; # found nothing, or was killed here
	2 | 126 | 127) exit 1 ;;   # did not even begin
	esac
	[[ ! $pattern || $out =~ $pattern ]]
}

for fault in "${faults[@]}"; do
	found=1
	for ((i = 0; i < runs && found == 1; i++)); do
		run "$fault" "$@"
		found=$?
		[[ ${fault%%:*} != none ]] || break
	done
	if ((found == 77)); then
		lacks=77
	elif [[ ${fault%%:*} = none ]]; then
		((found)) || { echo "failed without a fault"; exit 1; }
	elif ((found)); then
		echo "'$fault' was not found"
		exit 1
	fi
done
exit $lacks
