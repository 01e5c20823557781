"""Tests of programs: what must hold of requests and of the placement, in `NAME.test.adm` beside `NAME.adm`.

    text --read, resolve--> ProgramTest
    Program, Placement --mesh--> Mesh --callers, evaluate--> what a request meets --verdict--> passed, failed, undecided
    paths --run--> RunResults --> text | json | junit

A test passes only if it holds whatever it leaves open (`facts`).
"""
