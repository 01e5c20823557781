"""The shell script that applies and removes interception rules any number of times.

A rules file cannot test whether a jump exists already; a shell script can. The script is equal for every ADM and
contains no name of a program: the rules come from the files beside it.
"""

from __future__ import annotations

from typing import Final

from emitters.interception.tables import CHAINS, HOOKS, OWNED, Family

RULES_FILES: Final = {Family.IPV4: "iptables.rules", Family.IPV6: "ip6tables.rules"}
"""Names under which `script` expects the output of `restore_file`, in its own folder."""

_HEAD: Final = """\
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

"""

_OWNER: Final = rf"""
named() {{ # prints the service that the rules on standard input are of
    sed -n 's/^-A {OWNED} -m comment --comment "\{{0,1\}}\([^ "]*\)"\{{0,1\}}$/\1/p'
}}

ours() {{ # tool action: ends the script unless the loaded rules are none, or those of the same service
    # The exit status of a pipe is that of its end: a missing file would pass for no rules.
    [ -r "$here/$1.rules" ] || {{ echo "$here/$1.rules is missing" >&2; exit 1; }}
    listed=$("$1" -w -t nat -S)
    printf '%s\n' "$listed" | grep -q '^-A {OWNED} ' || return 0
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
}}

"""

_TAIL: Final = """\
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
"""


def script() -> str:
    """The script. `apply` loads `RULES_FILES` and adds the missing jumps; `remove` removes all of this and nothing
    else. Neither touches the rules of another service, whose ADM would no longer get any connection.

    `apply` fills the chains before it adds jumps to them, and `nat` before `filter`: if a connection is refused, the
    next attempt is redirected.
    """
    apply = [
        "apply() { # tool",
        '    ours "$1" apply',
        '    grep -v "^-I " "$here/$1.rules" | "$1-restore" -w --noflush',
        *(f'    hook "$1" {hook.table} {hook.builtin} {hook.chain}' for hook in HOOKS),
        "}",
        "",
    ]
    # Jumps come first: a chain to which a jump leads cannot be deleted.
    remove = [
        "remove() { # tool",
        *(f'    unhook "$1" {hook.table} {hook.builtin} {hook.chain}' for hook in reversed(HOOKS)),
        *(f'    flush "$1" {table} {chain}' for table, chains in CHAINS.items() for chain in chains),
        *(f'    delete "$1" {table} {chain}' for table, chains in CHAINS.items() for chain in chains),
        "}",
        "",
    ]
    return _HEAD + "\n".join([*apply, *remove]) + _OWNER + _TAIL
