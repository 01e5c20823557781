"""Codes about the sides of a comparison: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM832": (
        "git cannot read a repository here",
        "`admc diff` reads revisions as git's objects, with the `git` on the `PATH`, in the repository of the working "
        "directory, or of the file that the other side names. It never checks anything out, and fetches nothing. "
        "Git refuses a repository that another user owns unless `safe.directory` lists it. Two files can be compared "
        "without git.",
        "",
        "admc diff old.plan.json new.plan.json",
    ),
    "ADM833": (
        "a side is neither a file nor a revision",
        "A side of `admc diff` is a plan, a program, `REV:PATH` as git writes it, or `REV` alone, which takes the "
        "path of the other side. A revision never begins with `-`.",
        "admc diff mian policies.adm",
        "admc diff main policies.adm\nadmc diff main:policies.adm release:policies.adm",
    ),
    "ADM834": (
        "a side is both a file and a revision",
        "A file of the working directory has the name of a branch, a tag or a commit. As in git, the name has to say "
        "which one is meant: `./NAME` is the file, and `refs/heads/NAME` the branch.",
        "",
        "admc diff refs/heads/release ./policies.adm",
    ),
    "ADM835": (
        "the clone is shallow and lacks a commit",
        "A shallow clone has only the newest commits. Jobs of continuous integration make such clones. Fetch as many "
        "as the comparison needs: two for the first parent of a merge, all for `--merge-base`.",
        "",
        "git fetch --deepen=1\nadmc diff HEAD^1 policies.adm",
    ),
    "ADM836": (
        "the revision has no such file",
        "A path in `REV:PATH` begins at the top of the repository; `REV:./PATH` begins at the working directory. A "
        "program that BASE lacks, and that HEAD has at the same path, is no error: the other side is BASE's program of "
        "the same app, and without one all is new.",
        "",
        "admc diff main:examples/shop/policies.adm examples/shop/policies.adm",
    ),
    "ADM837": (
        "the content of a file is not in the revision",
        "A link, a submodule and a pointer of Git LFS stand for content that is elsewhere. admc does not follow them, "
        "since a proposed change could then show any file. Files are also limited in size, and a partial clone may "
        "lack them.",
    ),
    "ADM838": (
        "two sides, or a plan and its program, do not belong together",
        "A plan is the one of its program if admc makes the same of the program now; an edited plan is not. Both "
        "sides of a comparison are of one application. A program is compared with BASE's programs of its app, and with "
        "those that lose services to it; too many of them are refused.",
        "",
        "admc compile policies.adm\nadmc diff main policies.adm",
    ),
    "ADM839": (
        "the file is not a difference",
        "`admc diff --format json` writes differences. The cause says which field does not fit. One of a newer admc "
        "is read by that admc, and one of an older admc has to be written again.",
        "",
        "admc diff main policies.adm --format json -o DIFF.json",
    ),
}
