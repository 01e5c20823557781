"""Tests of programs: what must hold of requests and of the placement, in `NAME.test.adm` beside `NAME.adm`."""
