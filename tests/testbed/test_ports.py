"""The ports of tests: what one part of a test holds, no other part gets."""

from __future__ import annotations

from tests.testbed.ports import free_port, program_port, server_port


def test_the_port_of_a_server_is_given_to_nothing_else_while_it_does_not_listen() -> None:
    """Ports are given in turn, so a hundred calls are more than one round."""
    given = {free_port() for _ in range(100)}
    assert 1 < len(given) < 100
    assert given.isdisjoint({server_port(), program_port()})
