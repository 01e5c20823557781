"""What people judge a change by, before it is merged.

    programs --checking--> findings
    programs and their tests --program_tests--> passed, failed, undecided
    two revisions --diff--> Diff --gates--> verdicts       Plan, Diff --report--> a page       Diff --comment--> GitHub

Nothing here changes a program, a plan or a server.
"""
