"""Tests of programs: expectations about requests and about the placement, in `NAME.test.adm` beside `NAME.adm`.

    text --read, resolve--> ProgramTest
    Program, Placement --mesh--> Mesh --callers, evaluate--> what a request meets --verdict--> passed, failed, undecided
    paths --run--> RunResults --> text | json | junit

A test passes only if its expectation holds for all values of the facts that the test leaves open (`facts`).
"""
