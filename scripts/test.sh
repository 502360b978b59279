# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: the tests, in two tiers.
#
# ./dev test is the first: that this tree works on this machine, each subject once. The rest is the
# matrix, ./dev test --matrix: other modes, compilers, sanitizers, CPUs and C libraries, models,
# mutants. A test that is too expensive for each run has a label third_<k> or sixth_<k> and runs in
# one turn of three or six: cmake/NearTests.cmake. Some modes run in one or two of four turns, of
# which each has about as much to do. The number of commits selects the turn, so that one commit
# always runs the same tests, and continuous integration reaches all of them in twelve commits.

# Labels of the tests of the preset dev that are left to the matrix: BEHIND below.
BEHIND='matrix|own_area|slot_cpu|valgrind|mutant|third_.|sixth_.'
# mode ; preset ; labels of its tests, and labels left out, of ctest ; its turns, of how many ;
#   seconds on two CPUs, about ; text
# mode ; - ; command ; ; ; seconds ; text
MATRIX=(
	"machine;dev;;BEHIND;;240;this machine: gcc, as it is and without rseq"
	"gcc;dev;BEHIND;valgrind;;240;gcc: own area, slot per cpu, and what takes turns"
	"clang;clang;;valgrind|headers|consumer|once;;130;clang: plain, and the other modes in turn"
	"asan;asan;;headers|once;;190;gcc with AddressSanitizer and UndefinedBehaviorSanitizer"
	"tsan;tsan;;headers|once;;110;clang with ThreadSanitizer"
	"valgrind;dev;valgrind;;0/4;60;memcheck, which has no rseq"
	"aarch64;aarch64;;;0/2;80;cross build, static, run by qemu-user"
	"riscv64;riscv64;;;1/2;60;cross build, static, run by qemu-user"
	"musl;musl;;headers|once;1,2/4;120;musl-gcc"
	"generic;generic;plain;storm|once;3/4;60;as on a CPU for which no sequences are known"
	"i686;i686;qemu;storm|once;0/4;40;as a program of 32 bits"
	"time64;i686-time64;qemu;storm|once;3/4;40;the same with a time_t of 64 bits"
	"models;-;models;;;80;the protocols, model-checked; broken variants must be caught"
	"lint;-;tests/lint/lint.sh --light;;;15;formatting and the house rules"
)
# How long the stress tests are whose turn it is.
LONG_SECONDS=30
job=
ahead= # the build of presets whose tests come later
turn=    # a number, or all
affected=       # a pattern of labels to which the tests are limited;
affected_first= # that of the mode machine, which has more of them
targets=()      # of the builds that are limited to some tests
ends=0          # when the mode ends, and in how many seconds later ones do: about
later=0

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
			"  $(time_left)$(tail -n 1 "$log" | tr -d '\r\t' | cut -c 1-200)" >&2
		sleep 0.3
	done
	wait "$job" || status=$?
	job=
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
	return "$status"
}

# Of all modes, as far as it is known.
time_left() {
	local left=$((ends > SECONDS ? ends - SECONDS + later : later))
	((ends == 0)) || printf 'about %d:%02d left: ' $((left / 60)) $((left % 60))
}

# seconds_of MODE SECONDS: those of its last run here, or these.
seconds_of() {
	local times=$LOGS/$1.seconds
	if [[ -s $times ]]; then cat "$times"; else echo "$2"; fi
}

# run_tests MODE PRESET WANTED LEFT-OUT: ctest by labels, in up to three steps. Some tests wait: one
# more than there are processors keeps these busy. Stress tests need the processors for themselves;
# those of several modes run at the same time. In the mode gcc some of them, in turn, are long.
run_tests() {
	local mode=$1 wanted=() affected=$affected left_out long=none status=0
	left_out="${4:+${4/BEHIND/$BEHIND}|}third_$(not_in_turn 3)|sixth_$(not_in_turn 6)"
	[[ -z $since ]] || left_out+="|third_.|sixth_.|mutant"
	[[ -z $3 ]] || wanted=(-L "^(${3/BEHIND/$BEHIND})\$")
	[[ $mode != machine ]] || affected=$affected_first
	[[ -z $affected ]] || wanted+=(-L "^($affected)\$")
	if [[ $mode = gcc && -z $affected ]]; then
		long=long_
		[[ $turn = all ]] || long=long_$((turn % 4))
	fi
	ctest_step "$mode" "$2" main "$((JOBS + 1))" "${wanted[@]}" \
		-LE "^($left_out|storm)\$" || status=$?
	[[ $left_out != *storm* ]] || return "$status"
	ctest_step "$mode" "$2" storm "$((2 * JOBS))" "${wanted[@]}" -L '^storm$' \
		-LE "^($left_out|$long.*)\$" || status=$?
	[[ $long != none ]] || return "$status"
	local -x NEAR_STRESS_SECONDS=$LONG_SECONDS
	ctest_step "$mode" "$2" long "$((2 * JOBS))" -L "^$long" -LE "^($left_out)\$" || status=$?
	unset NEAR_STRESS_SECONDS
	[[ ! $matrix ]] || run_again || status=$?
	return "$status"
}

# Of the first tier what was skipped, or was not there: the matrix has installed more.
run_again() {
	local names
	mapfile -t names < <(ctest --test-dir build/dev -N -LE "^($BEHIND)\$" |
		sed -n 's/^ *Test *#[0-9]*: //p' |
		grep -vxF -f <(python3 scripts/results.py passed "$LOGS" machine) |
		sed 's/[^a-zA-Z0-9_]/[&]/g')
	((${#names[@]} == 0)) || ctest_step gcc dev again "$JOBS" \
		-R "^($(IFS='|' && echo "${names[*]}"))\$"
}

# ctest_step MODE PRESET STEP JOBS ARGUMENT...
ctest_step() {
	local -x NEAR_TEST_TURN=$turn # of the emulator's record
	[[ $1 != machine ]] || unset NEAR_TEST_TURN
	run_logged "$LOGS/$1.log" ctest --test-dir "build/$2" --output-on-failure --parallel "$4" \
		--output-junit "$LOGS/$1-$3.xml" "${@:5}"
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
# next. Fails if one of its tests has.
test_mode() {
	local mode=$1 preset=$2 status=0 log=$LOGS/$1.log began=$SECONDS
	: >"$log"
	stop_ahead
	rm -f "$LOGS/$mode"-{main,storm,long,again}.xml
	if [[ $preset = - ]]; then
		run_command "$log" "$3" || status=$?
	elif ! run_logged "$log" build_tests "$preset"; then
		say "dev: $mode does not build"
		status=1
	else
		build_ahead "${@:5}"
		run_tests "$mode" "$preset" "$3" "$4" || status=$?
	fi
	# What a change affects may have no tests in a preset; the models may all be left out.
	[[ -z $affected_first && $mode != models ]] || status+=" any"
	python3 scripts/results.py mode "$LOGS" "$mode" "$status" >&2 || status=1
	times+=("$mode:$((SECONDS - began))")
	[[ $affected_first || $status != 0* ]] || echo $((SECONDS - began)) >"$LOGS/$mode.seconds"
}

list_modes() {
	local entry mode turns seconds text
	for entry in "${MATRIX[@]}"; do
		IFS=';' read -r mode _ _ _ turns seconds text <<<"$entry"
		printf '%-10s %3d s  %s%s\n' "$mode" "$(seconds_of "$mode" "$seconds")" "$text" \
			"${turns:+ (turn ${turns/\// of })}"
	done
}

# its_turn TURNS: 1,2/4 is turns 1 and 2 of four, nothing each turn.
its_turn() { [[ -z $1 || $turn = all || ,${1%/*}, = *",$((turn % ${1#*/})),"* ]]; }

# select_modes MODE...: sets entries to their lines, without those whose turn it is not.
select_modes() {
	local entry mode turns seconds
	for entry in "${MATRIX[@]}"; do
		IFS=';' read -r mode _ _ _ turns seconds _ <<<"$entry"
		[[ " $* " = *" $mode "* ]] || continue
		if [[ -n $named ]] || its_turn "$turns"; then
			entries+=("$entry")
			later=$((later + $(seconds_of "$mode" "$seconds")))
		else
			say "== $mode: in another turn"
		fi
	done
}

# presets_of PRESET ENTRY...: what the entries build, once each, besides the preset.
presets_of() {
	printf '%s\n' "${@:2}" | cut -d ';' -f 2 | awk -v but="$1" '
		$0 != "" && $0 != "-" && $0 != but && !seen[$0]++'
}

run_modes() {
	local entries=() times=() mode preset wanted left_out seconds text next i
	[[ $* = machine ]] || say "turn $turn of the tests that take turns"
	select_modes "$@"
	for i in "${!entries[@]}"; do
		IFS=';' read -r mode preset wanted left_out _ seconds text <<<"${entries[i]}"
		say "== $mode: $text"
		seconds=$(seconds_of "$mode" "$seconds")
		[[ $affected_first ]] || ends=$((SECONDS + seconds))
		later=$((later - seconds))
		mapfile -t next < <(presets_of "$preset" "${entries[@]:i+1}")
		test_mode "$mode" "$preset" "$wanted" "$left_out" "${next[@]}"
	done
	stop_ahead
	python3 scripts/results.py end "$LOGS" "$turn" "${times[@]}"
}

# test_options ARGUMENT...: sets modes, but, named, matrix, turn, since and action.
test_options() {
	while (($# > 0)); do
		case $1 in
		--matrix) matrix=yes ;;
		--all) turn=all ;;
		--turn) turn=${2:-none} && shift ;;
		--changed) since=HEAD ;;
		--changed=?*) since=${1#*=} ;;
		--list) action=list_modes ;;
		--slowest) action=show_slowest ;;
		--only | --but)
			grep -qx -- "${2:-}" <<<"$known" || bad_usage "no mode '${2:-}'; try --list"
			if [[ $1 = --but ]]; then but+=" $2"; else modes+=("$2") named=yes; fi
			shift
			;;
		*) bad_usage "test takes no '$1'" ;;
		esac
		shift || true
	done
	[[ -z $since || -z $named$matrix ]] || bad_usage "--changed chooses the modes itself"
	[[ -z $matrix || -z $named ]] || bad_usage "--only is one part of --matrix: one of both"
	[[ -n $matrix || -z $but ]] || bad_usage "--but is of --matrix"
	[[ -n $matrix$named$since || -z $turn ]] || bad_usage "turns are of --matrix and --only"
	[[ $turn =~ ^(|all|[0-9]{1,8})$ ]] || bad_usage "--turn takes a number"
	[[ $turn != 0?* ]] || turn=$((10#$turn))
}

show_slowest() { python3 scripts/results.py slowest "$LOGS"; }

cmd_test() {
	local modes=() but='' named='' matrix='' since='' action=run_modes known
	local installed_some='' status=0
	known=$(list_modes | cut -d ' ' -f 1)
	test_options "$@"
	[[ $action = run_modes ]] || { "$action" && return; }
	turn=${turn:-$(default_turn)}
	[[ -z $since ]] || select_changed "$since"
	if [[ $matrix ]]; then
		mapfile -t modes < <(grep -vxF -f <(tr ' ' '\n' <<<"${but:- }") <<<"$known")
		((${#modes[@]} > 0)) || bad_usage "--but leaves no mode"
	fi
	((${#modes[@]} > 0)) || modes=(machine)
	if [[ ${modes[*]} = machine ]]; then ensure_packages test; else ensure_packages matrix; fi
	mkdir -p "$LOGS"
	stop_on_signals
	run_modes "${modes[@]}" || status=1
	show_budget "${modes[*]}"
	return "$status"
}

# Beside the time that it has taken what it may take.
show_budget() {
	if [[ $since ]]; then
		budget "./dev test --changed" "$SECONDS"
	elif [[ $matrix && $turn = all ]]; then
		budget "./dev test --matrix --all" "$SECONDS"
	elif [[ $1 = machine && $installed_some ]]; then
		budget "./dev test from bare" "$SECONDS"
	elif [[ $1 = machine ]]; then
		budget "./dev test, packages installed" "$SECONDS"
	fi
}
