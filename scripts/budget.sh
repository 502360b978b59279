# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What the tests may take: the table of CONTRIBUTING.md, "Time". A time never fails anything.

# minutes SECONDS: as 4:05.
minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# budget WHAT SECONDS: prints the time beside what the row that begins with WHAT allows, and warns
# above it.
budget() {
	local most
	most=$(awk -F ' *[|] *' -v what="$1" '
		{ gsub("`", "") }
		$2 ~ /^[0-9]+ min$/ && index($3, what) == 1 { print $2 * 60; exit }' \
		CONTRIBUTING.md || true)
	[[ $most ]] || fail "CONTRIBUTING.md has no time for: $1"
	if (($2 <= most)); then
		printf '%s took %s, at most %s\n' "$1" "$(minutes "$2")" "$(minutes "$most")"
	else
		printf 'warning: %s took %s, more than %s (CONTRIBUTING.md, "Time")\n' \
			"$1" "$(minutes "$2")" "$(minutes "$most")"
	fi
}
