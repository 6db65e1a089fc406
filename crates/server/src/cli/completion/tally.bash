# Completion of tally's commands, and of what there is on the server, for bash 4 and newer.

_tally() {
    local line=${COMP_LINE:0:COMP_POINT} words reply
    # COMP_WORDS breaks property=value into three.
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    mapfile -t reply < <(tally complete -- "${words[@]}" 2> /dev/null)
    reply=("${reply[@]%%$'\t'*}")
    # bash replaces what stands behind the last of its word breaks alone.
    local last=${words[-1]} breaks=${COMP_WORDBREAKS//[^=:]/}
    if [[ -n $breaks && $last == *[$breaks]* ]]; then
        local kept=${last%"${last##*[$breaks]}"}
        reply=("${reply[@]#"$kept"}")
    fi
    # A name that means something to the shell, as that of a file may, is one word all the same.
    local at
    for at in "${!reply[@]}"; do
        [[ ${reply[at]} == *[!a-zA-Z0-9_@%+=:,./-]* ]] && printf -v "reply[at]" %q "${reply[at]}"
    done
    COMPREPLY=("${reply[@]}")
    # Behind these something is still to come.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}

complete -o nosort -F _tally tally 2> /dev/null || complete -F _tally tally
