"""Reviews of a change before it is merged.

    programs --checking--> findings
    programs and their tests --program_tests--> passed, failed, undecided
    two revisions --diff--> Diff --gates--> verdicts
    Plan, Diff --report--> a page
    Diff --comment--> GitHub

No module here changes a program, a plan or a server.
"""
