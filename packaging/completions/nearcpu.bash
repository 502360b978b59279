# SPDX-License-Identifier: MIT
# Completion of nearcpu(1) in bash. The command has the words, in its tables.
_nearcpu() {
	local rest=${COMP_LINE:0:COMP_POINT} blanks word line words=() at=() lines i
	# bash separates words at = and :, too; the command wants them as it would get them.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		blanks=${rest%%[![:blank:]]*} word=${COMP_WORDS[i]}
		rest=${rest:${#blanks}}
		((i < COMP_CWORD)) || word=$rest
		rest=${rest:${#word}}
		[[ ! $blanks && $i != 0 ]] || words+=("") at+=("$i")
		words[-1]+=$word
	done
	word=${words[-1]}
	mapfile -t lines < <("${1/#~\//$HOME/}" --complete "${words[@]:1}" 2>/dev/null)
	case ${lines[0]} in
	files) compopt -o default ;;
	folders) compopt -o dirnames ;;
	command*)
		i=${at[-${lines[0]#command }]}
		((i < COMP_CWORD)) || mapfile -t COMPREPLY < <(compgen -c -- "$2")
		compopt -o default
		_command_offset "$i" 2>/dev/null # of bash-completion
		;;
	esac
	for line in "${lines[@]:1}"; do
		line=${line%%$'\t'*}
		# $2 is what bash replaces: the end of the word, after = or :.
		[[ $line != "$word"* ]] || COMPREPLY+=("${line#"${word%"$2"}"}")
	done
}
complete -F _nearcpu nearcpu
