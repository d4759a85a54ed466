    # bash splits a word at : and =, and the package bash-completion joins its parts again. Without
    # that package, they are joined here: a part that no blank precedes belongs to the last word.
    local i part line=$COMP_LINE
    words=()
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        part=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $line != [[:blank:]]* ]]; then
            words[${#words[@]} - 1]+=$part
        else
            words+=("$part")
        fi
        line=${line#*"$part"}
        ((i == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}
