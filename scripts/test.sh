# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: the matrix of tests.
#
# A test that is too expensive for each run has a label third_<k> or sixth_<k> and runs in one turn
# of three or six: cmake/NearTests.cmake. Some modes run in every second turn. The number of commits
# selects the turn, so that one commit always runs the same tests, and continuous integration
# reaches all of them in six commits.

# mode ; preset ; labels of its tests, and labels left out, of ctest ; its turn of how many ; text
# mode ; - ; command ; ; ; text
MATRIX=(
	"gcc;dev;;valgrind|headers|consumer;;gcc: plain, without rseq, own area, slot per cpu"
	"clang;clang;;valgrind|headers|consumer|once;;clang: plain, and the other modes in turn"
	"asan;asan;;headers|once;;gcc with AddressSanitizer and UndefinedBehaviorSanitizer"
	"tsan;tsan;;headers|once;;clang with ThreadSanitizer"
	"valgrind;dev;valgrind;;0/2;memcheck, which has no rseq"
	"aarch64;aarch64;;;0/2;cross build, static, run by qemu-user"
	"riscv64;riscv64;;;1/2;cross build, static, run by qemu-user"
	"musl;musl;;headers|once;;musl-gcc"
	"generic;generic;plain;storm|once;1/2;as on a CPU for which no sequences are known"
	"headers;dev;headers;;;each public header alone: C11, C++17, C++20, gcc and clang"
	"consumers;dev;consumer;;;programs against the installed prefix and the embedded sources"
	"models;-;models;;;the protocols, model-checked; broken variants must be caught"
	"lint;-;tests/lint/lint.sh --light;;;formatting and the house rules"
)
# How long the stress tests of the first preset take whose turn it is.
LONG_SECONDS=30
job=
ahead= # the build of presets whose tests come later
turn=    # a number, or all
quick=   # leaves out the stress tests
affected=       # a pattern of labels to which the tests are limited;
affected_first= # that of the first preset, which has more of them
targets=()      # of the builds that are limited to some tests
passed=0 failed=0 skipped=0

# The number of commits or, without them all, of days.
default_turn() {
	if [[ $(git rev-parse --is-shallow-repository 2>/dev/null) = false ]]; then
		git rev-list --count HEAD
	else
		echo $(($(date +%s) / 86400))
	fi
}

# not_in_turn COUNT: a pattern of the turns that this one leaves out, of COUNT.
not_in_turn() {
	local digits=012345
	digits=${digits:0:$1}
	[[ $turn = all ]] && echo x && return
	echo "[${digits/$((turn % $1))/}]"
}

# Of these signals none may leave a test or a build behind. PIPE comes when a reader such as head
# ends.
stop_on_signals() { trap stop INT TERM HUP PIPE; }

stop() {
	trap - INT TERM HUP
	trap '' PIPE
	[[ -z $job ]] || kill -TERM -- "-$job" 2>/dev/null || true
	stop_ahead
	wait 2>/dev/null || true
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
	say "dev: interrupted" || true
	exit 130
}

# run_logged LOG COMMAND...: in a process group of its own, so that an interrupt ends all of it.
run_logged() {
	local log=$1 status=0
	shift
	set -m
	"$@" >>"$log" 2>&1 </dev/null &
	job=$!
	set +m
	while [[ -t 2 ]] && kill -0 "$job" 2>/dev/null; do
		printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" \
			"  $(tail -n 1 "$log" | tr -d '\r\t' | cut -c 1-200)" >&2
		sleep 0.3
	done
	wait "$job" || status=$?
	job=
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
	return "$status"
}

# run_tests LOG PRESET WANTED LEFT-OUT: ctest by labels, in up to three steps. Some tests wait: one
# more than there are processors keeps these busy. Stress tests need the processors for themselves;
# those of several modes run at the same time. In the first preset some of them, in turn, are long.
run_tests() {
	local log=$1 preset=$2 wanted=() affected=$affected left_out long=none status=0
	left_out="${4:+$4|}third_$(not_in_turn 3)|sixth_$(not_in_turn 6)"
	[[ -z $3 ]] || wanted=(-L "^($3)\$")
	[[ $preset != dev ]] || affected=$affected_first
	[[ -z $affected ]] || wanted+=(-L "^($affected)\$")
	ctest_step "$log" "$preset" main "$((JOBS + 1))" "${wanted[@]}" \
		-LE "^($left_out|storm)\$" || status=$?
	[[ -z $quick && $left_out != *storm* ]] || return "$status"
	if [[ $preset = dev && -z $affected ]]; then
		long=long_
		[[ $turn = all ]] || long=long_$((turn % 4))
	fi
	ctest_step "$log" "$preset" storm "$((2 * JOBS))" "${wanted[@]}" -L '^storm$' \
		-LE "^($left_out|$long.*)\$" || status=$?
	[[ $long != none ]] || return "$status"
	local -x NEAR_STRESS_SECONDS=$LONG_SECONDS
	ctest_step "$log" "$preset" long "$((2 * JOBS))" "${wanted[@]}" -L "^$long" \
		-LE "^($left_out)\$" || status=$?
	return "$status"
}

# ctest_step LOG PRESET STEP JOBS ARGUMENT...
ctest_step() {
	local -x NEAR_TEST_TURN=$turn # of the emulator's record
	run_logged "$1" ctest --test-dir "build/$2" --output-on-failure --parallel "$4" \
		--output-junit "${1%.log}-$3.xml" "${@:5}"
}

# run_command LOG COMMAND: of a mode without a preset.
run_command() {
	local command
	IFS=' ' read -ra command <<<"$2"
	if [[ $2 = models ]]; then
		command=(models/run.sh)
		[[ $turn = all ]] || command+=(--turn "$turn")
	fi
	run_logged "$1" "${command[@]}"
}

# build_tests PRESET: of the targets, those that the preset has.
build_tests() {
	local only=()
	cmake --preset "$1" || return
	if [[ ${targets[*]} && ($1 != dev || -z $affected) ]]; then
		mapfile -t only < <(ninja -C "build/$1" -t targets all | cut -d : -f 1 |
			grep -xF -f <(printf '%s\n' "${targets[@]}"))
		only=(--target "${only[@]}")
	fi
	cmake --build "build/$1" --parallel "$JOBS" "${only[@]}"
}

# build_ahead PRESET...: while tests run, some of which wait or need one processor only.
build_ahead() {
	(($# > 0)) || return 0
	set -m
	{
		renice -n 19 -p "$BASHPID"
		for preset; do build_tests "$preset"; done
	} >"$LOGS/ahead.log" 2>&1 </dev/null &
	ahead=$!
	set +m
}

# What it has not built yet, the modes build themselves.
stop_ahead() {
	[[ -z $ahead ]] || kill -TERM -- "-$ahead" 2>/dev/null || true
	[[ -z $ahead ]] || wait "$ahead" 2>/dev/null || true
	ahead=
}

# test_mode MODE PRESET WANTED LEFT-OUT PRESET...: runs it, while the PRESETs are built that come
# next. Sets passed, failed, skipped.
test_mode() {
	local mode=$1 preset=$2 status=0 log=$LOGS/$1.log
	passed=0 failed=0 skipped=0
	: >"$log"
	stop_ahead
	rm -f "$LOGS/$mode"-{main,storm,long}.xml
	if [[ $preset = - ]]; then
		run_command "$log" "$3" || status=$?
	elif ! run_logged "$log" build_tests "$preset"; then
		say "dev: $mode does not build; the end of ${log#"$ROOT"/}:"
		show_end "$log"
		failed=1
		return
	else
		build_ahead "${@:5}"
		run_tests "$log" "$preset" "$3" "$4" || status=$?
	fi
	count_results "$log" "$LOGS/$mode"
	((failed > 0 || status == 0 || status == 77)) || failed=1
	((failed == 0)) || say "  the log is ${log#"$ROOT"/}"
	((failed == 0)) || show_failures "$log"
}
# show_failures LOG: of each failed test in a log of ctest, what it printed last.
show_failures() {
	awk -v most=20 '
		function flush(i) {
			if (name != "") print "  | " name
			for (i = n > most ? n - most : 0; i < n; i++) print "  |   " lines[i]
			name = ""; n = 0
		}
		/^ *[0-9]+\/[0-9]+ +Test +#/ {
			flush()
			if (/\*\*\*/ && !/\*\*\*Skipped/) name = $0
			next
		}
		/^ +Start +[0-9]+: / { next }
		/^[0-9]+% tests passed/ { flush() }
		name != "" && NF { lines[n++] = $0 }
		END { flush() }' "$1" >&2
}

# A test counts as skipped only if it reported that: one that could not be started has failed.
count_results() {
	local log=$1 name cases
	cases=$(cat "$2"-{main,storm,long}.xml 2>/dev/null || true)
	if [[ $cases ]]; then
		passed=$(grep -c 'status="run"' <<<"$cases" || true)
		skipped=$(grep -c '<skipped message="SKIP_' <<<"$cases" || true)
		failed=$(($(grep -c '<testcase ' <<<"$cases" || true) - passed - skipped))
		while read -r name; do
			say "  failed: $name"
		done < <(sed -n 's/.*<testcase name="\([^"]*\)".*status="fail".*/\1/p' <<<"$cases")
	else
		passed=$(grep -c '^ok ' "$log" || true)
		failed=$(grep -c '^FAILED ' "$log" || true)
		skipped=$(grep -c '^skipped ' "$log" || true)
	fi
	# What a change affects may have no tests in a preset; the models may all be left out.
	[[ -n $affected || $2 = */models ]] || ((passed + failed + skipped > 0)) || failed=1
}

# slowest MODE...: the ten tests that took longest, from the last results of the modes.
slowest() {
	local mode
	for mode; do
		{ cat "$LOGS/$mode"-{main,storm,long}.xml 2>/dev/null || true; } |
			sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\)".*/\2 \1/p' |
			sed "s/ / $mode /"
	done | sort -rn | awk 'NR <= 10 { printf "%8.1f s  %-10s %s\n", $1, $2, $3 }'
}

list_modes() {
	local entry mode turns text
	for entry in "${MATRIX[@]}"; do
		IFS=';' read -r mode _ _ _ turns text <<<"$entry"
		printf '%-10s %s%s\n' "$mode" "$text" "${turns:+ (in every second turn)}"
	done
}

# select_modes MODE...: sets entries to their lines, without those whose turn it is not.
select_modes() {
	local entry mode turns
	for entry in "${MATRIX[@]}"; do
		IFS=';' read -r mode _ _ _ turns _ <<<"$entry"
		[[ " $* " = *" $mode "* ]] || continue
		if [[ -n $named || -z $turns || $turn = all ]] || ((turn % 2 == ${turns%/2})); then
			entries+=("$entry")
		else
			say "== $mode: in the next turn"
		fi
	done
}

# presets_of PRESET ENTRY...: what the entries build, once each, besides the preset.
presets_of() {
	printf '%s\n' "${@:2}" | cut -d ';' -f 2 | awk -v but="$1" '
		$0 != "" && $0 != "-" && $0 != but && !seen[$0]++'
}

run_matrix() {
	local entries=() mode preset wanted left_out text next
	local i began all=$SECONDS total=(0 0 0) table=()
	say "turn $turn of the tests that take turns"
	select_modes "$@"
	for i in "${!entries[@]}"; do
		IFS=';' read -r mode preset wanted left_out _ text <<<"${entries[i]}"
		say "== $mode: $text"
		began=$SECONDS
		mapfile -t next < <(presets_of "$preset" "${entries[@]:i+1}")
		test_mode "$mode" "$preset" "$wanted" "$left_out" "${next[@]}"
		say "  $passed passed, $failed failed, $skipped skipped"
		table+=("$(printf '%-10s %7d %7d %7d %6ds' \
			"$mode" "$passed" "$failed" "$skipped" $((SECONDS - began)))")
		total=($((total[0] + passed)) $((total[1] + failed)) $((total[2] + skipped)))
	done
	stop_ahead
	printf '\nThe slowest tests:\n'
	slowest "$@"
	printf '\n%-10s %7s %7s %7s %7s\n' mode passed failed skipped time
	printf '%s\n' "${table[@]}"
	printf '%-10s %7d %7d %7d %6ds\n\n' all "${total[@]}" $((SECONDS - all))
	printf '%d passed, %d failed, %d skipped\n' "${total[@]}"
	((total[1] == 0))
}

# test_options ARGUMENT...: sets modes, named, quick, turn, since and action.
test_options() {
	while (($# > 0)); do
		case $1 in
		--quick) quick=yes ;;
		--all) turn=all ;;
		--turn) turn=${2:-none} && shift ;;
		--changed) since=HEAD ;;
		--changed=?*) since=${1#*=} ;;
		--list) action=list_modes ;;
		--slowest) action=show_slowest ;;
		--only)
			modes+=("${2:-}") named=yes
			grep -qx -- "${2:-}" <<<"$known" || bad_usage "no mode '${2:-}'; try --list"
			shift
			;;
		*) bad_usage "test takes no '$1'" ;;
		esac
		shift || true
	done
	[[ -z $since || -z $named$quick ]] || bad_usage "--changed chooses the modes itself"
	[[ $turn =~ ^(|all|[0-9]{1,8})$ ]] || bad_usage "--turn takes a number"
	[[ $turn != 0?* ]] || turn=$((10#$turn))
}

show_slowest() {
	mapfile -t modes <<<"$known"
	compgen -G "$LOGS/*.xml" >/dev/null || fail "no tests have run yet"
	slowest "${modes[@]}"
}

cmd_test() {
	local modes=() named='' since='' action=run_matrix known
	known=$(list_modes | cut -d ' ' -f 1)
	test_options "$@"
	[[ $action = run_matrix ]] || { "$action" && return; }
	turn=${turn:-$(default_turn)}
	[[ -z $since ]] || select_changed "$since"
	[[ -z $quick ]] || modes+=(gcc headers lint)
	((${#modes[@]} > 0)) || mapfile -t modes <<<"$known"
	ensure_packages test
	mkdir -p "$LOGS"
	stop_on_signals
	run_matrix "${modes[@]}"
}
