#!/bin/sh
# Applies or removes the interception rules of the ADM whose files lie beside this script.
# Needs iptables and NET_ADMIN, in the network namespace of the pod. May be run again at any time.
set -eu

here=$(dirname "$0")

hook() { # tool table builtin chain
    "$1" -w -t "$2" -C "$3" -p tcp -j "$4" 2>/dev/null || "$1" -w -t "$2" -I "$3" 1 -p tcp -j "$4"
}

unhook() { # tool table builtin chain
    while "$1" -w -t "$2" -D "$3" -p tcp -j "$4" 2>/dev/null; do :; done
}

exists() { # tool table chain
    "$1" -w -t "$2" -n -L "$3" >/dev/null 2>&1
}

flush() { # tool table chain
    if exists "$@"; then "$1" -w -t "$2" -F "$3"; fi
}

delete() { # tool table chain
    if exists "$@"; then "$1" -w -t "$2" -X "$3"; fi
}

apply() { # tool
    ours "$1" apply
    grep -v "^-I " "$here/$1.rules" | "$1-restore" -w --noflush
    hook "$1" nat PREROUTING ADMC_IN
    hook "$1" nat OUTPUT ADMC_OUT
    hook "$1" filter INPUT ADMC_IN_GATE
    hook "$1" filter OUTPUT ADMC_OUT_GATE
}

remove() { # tool
    unhook "$1" filter OUTPUT ADMC_OUT_GATE
    unhook "$1" filter INPUT ADMC_IN_GATE
    unhook "$1" nat OUTPUT ADMC_OUT
    unhook "$1" nat PREROUTING ADMC_IN
    flush "$1" nat ADMC_IN
    flush "$1" nat ADMC_OUT
    flush "$1" nat ADMC_SELF
    flush "$1" filter ADMC_IN_GATE
    flush "$1" filter ADMC_OUT_GATE
    delete "$1" nat ADMC_IN
    delete "$1" nat ADMC_OUT
    delete "$1" nat ADMC_SELF
    delete "$1" filter ADMC_IN_GATE
    delete "$1" filter ADMC_OUT_GATE
}

named() { # prints the service that the rules on standard input are of
    sed -n 's/^-A ADMC_OUT -m comment --comment "\{0,1\}\([^ "]*\)"\{0,1\}$/\1/p'
}

ours() { # tool action: ends the script unless the loaded rules are none, or those of the same service
    # The exit status of a pipe is that of its end: a missing file would pass for no rules.
    [ -r "$here/$1.rules" ] || { echo "$here/$1.rules is missing" >&2; exit 1; }
    listed=$("$1" -w -t nat -S)
    printf '%s\n' "$listed" | grep -q '^-A ADMC_OUT ' || return 0
    theirs=$(printf '%s\n' "$listed" | named)
    own=$(named <"$here/$1.rules")
    if [ -n "$theirs" ]; then
        [ "$theirs" != "$own" ] || return 0
        whose="\`$theirs\`"
        hint="give each service a pod of its own, or take these away first, with the script beside their own files"
    else
        [ "$2" != remove ] || return 0
        whose="a service without a name"
        hint="take these away first: $0 remove"
    fi
    echo "the rules of $whose are loaded here, and $here/$1.rules are those of \`$own\`: nothing is changed" >&2
    echo "one network namespace has the rules of one service; $hint" >&2
    exit 1
}

families="iptables"
# A kernel without IPv6 carries no IPv6 traffic that could be missed.
if [ -e /proc/net/if_inet6 ]; then families="iptables ip6tables"; fi

case "${1:-}" in
    apply | remove)
        for tool in $families; do ours "$tool" "$1"; done
        for tool in $families; do "$1" "$tool"; done
        ;;
    *)
        echo "usage: $0 apply|remove" >&2
        exit 2
        ;;
esac
