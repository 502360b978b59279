# SPDX-License-Identifier: MIT
# Completion of nearcpu(1) in fish. The command has the words, in its tables.
function __nearcpu_complete
	set -l words (commandline -opc)
	set -l token (commandline -ct)
	set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
	set -l lines ($program --complete $words[2..-1] $token 2>/dev/null)
	set -l value (string replace -r '^--[^=]*=' '' -- $token)
	set -l before (string replace -r '^(--[^=]*=)?.*' '$1' -- $token)
	switch "$lines[1]"
		case files
			printf '%s\n' $before(complete -C "'' $value")
		case folders
			printf '%s\n' $before(__fish_complete_directories $value '')
		case 'command *'
			set -l from (string replace 'command ' - -- $lines[1])
			set -l escaped (string escape -- $words) $token
			complete -C "$escaped[$from..-1]"
		case words
			printf '%s\n' $lines[2..-1]
	end
end
complete -c nearcpu -f -a '(__nearcpu_complete)'
