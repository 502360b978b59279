#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: check.sh PROGRAM FAULT
# PROGRAM, which was built with a sanitizer, reports nothing; with the argument FAULT it reports
# that.
set -euo pipefail
program=$1 fault=$2
# Sanitizers of gcc 12 and clang 14 fail where the kernel randomizes more address bits than they
# expect.
run=(setarch -R "$program")
setarch -R true 2>/dev/null || run=("$program")
export TSAN_OPTIONS=atexit_sleep_ms=0 ASAN_OPTIONS=detect_leaks=1

report=$("${run[@]}" 2>&1) || {
	echo "$report"
	# Which LeakSanitizer needs; build chroots and containers may refuse it.
	[[ $report != *"does not work under ptrace"* ]] || exit 77
	exit 1
}
[[ $report = *Sanitizer* ]] && { echo "$report"; exit 1; }
if report=$("${run[@]}" "$fault" 2>&1); then
	echo "does not report: $fault"
	exit 1
fi
[[ $report = *"SUMMARY: "*"$fault"* ]] || { echo "$report"; exit 1; }
