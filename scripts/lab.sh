# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: the laboratory, the models and the stress tests.

stress() {
	local minutes=$1 round=0 end
	build_quietly dev
	stop_on_signals
	end=$((SECONDS + minutes * 60))
	while ((SECONDS < end)); do
		say "== stress tests, round $((round += 1))," \
			"$(((end - SECONDS + 59) / 60)) minutes left"
		: >"$LOGS/stress.log"
		run_logged "$LOGS/stress.log" env NEAR_STRESS_SECONDS=60 \
			ctest --test-dir build/dev -L storm -LE mutant --no-tests=error \
			--output-on-failure || {
			tail -n 40 "$LOGS/stress.log" >&2
			fail "round $round failed; the log is build/logs/stress.log"
		}
	done
	say "dev: $round rounds without a failure"
}

cmd_lab() {
	local minutes=10
	case ${1:-} in
	models)
		(($# == 1)) || bad_usage "lab models takes no '$2'"
		ensure_packages test
		models/run.sh
		;;
	stress)
		[[ $# -eq 1 || $2 != --minutes ]] || minutes=${3:-}
		[[ $# -le 3 && ${2:---minutes} = --minutes && $minutes =~ ^[1-9][0-9]{0,4}$ ]] ||
			bad_usage "lab stress takes --minutes and 1 to 99999"
		ensure_packages test
		stress "$minutes"
		;;
	*)
		[[ " $* " =~ \ (list|--list|-h|--help)\  ]] || ensure_packages test
		cd "$CALLER" || exit
		exec python3 "$ROOT/lab/lab.py" "$@"
		;;
	esac
}
