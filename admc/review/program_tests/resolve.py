"""Turns the statements of a file of tests into tests.

    syntax tree, Program -> [ProgramTest]

Every name is resolved by the program. A request that no client can send, or that no ADM passes on, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from admc.review.program_tests.kinds import assumable
from admc.review.program_tests.mesh import declared_calls
from admc.review.program_tests.model import (
    AdmExpectation,
    Admitted,
    CallExpectation,
    CallInTest,
    Expectation,
    Meets,
    NumberExpectation,
    Outcome,
    ProgramTest,
    Refused,
)
from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph.application import Application, the_port
from dsl.graph.bodies import report
from dsl.program import Policy, Port, Program, Protocol
from dsl.resolve.beside import Form, statements
from dsl.resolve.selectors import Selectors
from dsl.syntax import tree
from dsl.syntax.tokens import TEST
from dsl.text import Span
from dsl.values.headers import header_name

_FORM: Final = Form(TEST, 10_000, misplaced="ADM840", too_many="ADM847")
MOST: Final = 10**9
_METHOD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_GRPC_PATH: Final = re.compile(r"/[^/?#]+/[^/?#]+")
_HOST: Final = re.compile(r"[!-.0-~]+")
"""A host, with a port or without, and never with a path."""
_IN_PATHS: Final = re.compile(r'[!-"$-~]*')
"""The characters that an HTTP parser accepts in a path: printable ASCII without `#`, which begins a fragment."""
_UPGRADES: Final = ("websocket", "spdy/3.1", "tcp")
"""The protocols of upgrades that an ADM passes on (docs/invisible.md)."""


def resolve_tests(module: tree.Module, program: Program, diagnostics: Diagnostics) -> tuple[ProgramTest, ...]:
    """All tests without an error, in the order of the file."""
    resolver = _Resolver(program, diagnostics)
    tests: list[ProgramTest] = []
    for statement in statements(module, tree.Test, _FORM, diagnostics):
        expectation = resolver.expectation(statement.expectation)
        if expectation is not None:
            tests.append(ProgramTest(statement.name.text, statement.name.span, expectation))
    return tuple(tests)


class _Resolver:
    def __init__(self, program: Program, diagnostics: Diagnostics) -> None:
        self.program = program
        self.diagnostics = diagnostics
        self.application = Application(program.services, program.externals, program.calls)
        self.declared = declared_calls(program)

    def expectation(self, given: tree.ExpectedCall | tree.ExpectedAdm | tree.ExpectedNumber) -> Expectation | None:
        before = self.diagnostics.errors
        expectation: Expectation | None
        if isinstance(given, tree.ExpectedCall):
            expectation = self._call(given)
        elif isinstance(given, tree.ExpectedAdm):
            expectation = self._adm(given)
        else:
            expectation = self._number(given)
        return None if self.diagnostics.errors > before else expectation

    # ---- placements ----

    def _adm(self, given: tree.ExpectedAdm) -> AdmExpectation | None:
        apart = Diagnostics()
        sources = Selectors(self.application, apart).sources(given.at)
        for item in apart.items:
            if item.severity.value == "error":
                self.diagnostics.add(item)
        if sources is None:
            return None
        services = tuple(name for name in sorted(sources.names) if name in self.program.services)
        if not services:
            self.diagnostics.error(
                "ADM844",
                f"`{given.at.span.text[:60]}` selects no service",
                given.at.span,
                cause="a test about no service would hold whatever the placement is; externals host no ADM",
                hint="select a service of the program",
            )
        return AdmExpectation(services, given.present)

    def _number(self, given: tree.ExpectedNumber) -> NumberExpectation | None:
        number = units.integer(given.number.text, 0, MOST, f"a number of {given.measure}")
        if isinstance(number, units.BadNumber):
            report(number, given.number.span, self.diagnostics)
            return None
        return NumberExpectation(given.measure, given.operator, number)

    # ---- calls ----

    def _call(self, given: tree.ExpectedCall) -> CallExpectation | None:
        known = self.application.known(given.source, self.diagnostics)
        port = None
        if self.application.known(given.callee.name, self.diagnostics):
            port = the_port(self.application, given.callee, self.diagnostics)
        passes = frozenset(policy.name for item in given.items if (policy := self._passed(item)) is not None)
        outcome = self._outcome(given.outcome)
        if not known or port is None:
            return None
        source, destination = given.source.text, given.callee.name.text
        span = Span(given.source.span.source, given.source.span.start, given.callee.span.end)
        if source in self.program.externals and destination in self.program.externals:
            self.diagnostics.error(
                "ADM113",
                f"`{source}` and `{destination}` are both externals, and calls between them do not pass the mesh",
                span,
                hint="test a call from or to a service",
            )
        path, method, headers = self._request(given, port)
        declared = (source, destination, port.number) in self.declared
        return CallExpectation(
            CallInTest(source, destination, port, declared, span, path, method, headers, passes), outcome
        )

    def _outcome(self, given: tree.ExpectedOutcome) -> Outcome:
        policies = tuple(word.text for word in given.policies if self._policy(word) is not None)
        if given.word == "meets":
            return Meets(policies, given.only)
        if given.word == "refused":
            return Refused(policies[0] if policies else None)
        return Admitted()

    def _policy(self, word: tree.Word) -> Policy | None:
        policy = self.program.policy_by_name.get(word.text)
        if policy is None:
            hint = self.diagnostics.did_you_mean(word.text, self.program.policy_by_name)
            self.diagnostics.error("ADM103", f"there is no policy named `{word.text}`", word.span, hint=hint)
        return policy

    def _passed(self, item: tree.TestItem) -> Policy | None:
        if item.word != "passes" or not isinstance(item.name, tree.Word):
            return None
        policy = self._policy(item.name)
        if policy is not None and not assumable(policy):
            self.diagnostics.error(
                "ADM843",
                f"a test cannot assume what `{policy.name}` decides",
                item.span,
                cause=f"whether a request passes `{policy.kind.name}` follows from the program and the request",
                hint="remove it; `passes` is for a policy that decides by more, such as by a token",
                related=(Related(policy.span, f"`{policy.name}` is here"),),
            )
        return policy

    # ---- requests ----

    def _request(
        self, given: tree.ExpectedCall, port: Port
    ) -> tuple[str | None, str | None, Mapping[str, tuple[str, ...]]]:
        single: dict[str, str] = {}
        headers: dict[str, tuple[str, ...]] = {}
        absent: set[str] = set()
        for item in given.items:
            if item.word == "passes":
                continue
            if port.protocol is Protocol.TCP:
                self._wrong(item, f"a `tcp` call has no `{item.word}`", "remove it: a `tcp` call has no requests")
            elif item.word != "header" and item.word in single:
                self._wrong(item, f"`{item.word}` is given twice", "keep one of them")
            elif item.word == "header":
                self._header(item, headers, absent)
            elif item.value is not None and self._fits(item, item.value.value, port):
                single[item.word] = item.value.value
        method = "POST" if port.protocol is Protocol.GRPC else single.get("method")
        if method == "CONNECT" and "path" in single:
            item = next(candidate for candidate in given.items if candidate.word == "path")
            self._wrong(item, "a `CONNECT` has no path", "remove the path, or give another method")
        if "host" in single and "host" in headers:
            item = next(candidate for candidate in given.items if candidate.word == "host")
            self._wrong(item, '`host` and `header("host")` are the same', "keep one of them")
        elif "host" in single:
            headers["host"] = (single["host"],)
        return single.get("path"), method, headers

    def _header(self, item: tree.TestItem, headers: dict[str, tuple[str, ...]], absent: set[str]) -> None:
        if not isinstance(item.name, tree.String):
            return
        name = header_name(item.name, self.diagnostics)
        if name is None:
            return
        written = f'header("{name}")'
        if item.absent and item.value is not None:
            self._wrong(item, f"`no {written}` has no value", "remove the value, or `no`")
        elif not item.absent and item.value is None:
            self._wrong(item, f"`{written}` has no value", f'write `{written} "..."`, or `no {written}`')
        elif item.value is not None and not item.value.value.isprintable():
            self._wrong(item, "no request has such a value", "leave out line breaks and control characters")
        elif item.value is not None and item.value.value != item.value.value.strip():
            self._wrong(item, "no value of a header has blanks around it", "remove them, as every receiver does")
        elif item.value is not None and name == "upgrade" and item.value.value.lower() not in _UPGRADES:
            hint = f"an upgrade to {', '.join(f'`{protocol}`' for protocol in _UPGRADES)} arrives; leave out any other"
            self._wrong(item, "an ADM removes such an upgrade before any policy sees it", hint)
        elif item.absent and name == "host":
            self._wrong(item, "every request has a `host`", "remove it, or give its value")
        elif name in absent or (item.absent and name in headers):
            self._wrong(item, f"the header `{name}` is both present and absent", "keep one of them")
        elif item.value is None:
            absent.add(name)
            headers[name] = ()
        else:
            headers[name] = (*headers.get(name, ()), item.value.value)

    def _fits(self, item: tree.TestItem, value: str, port: Port) -> bool:
        """Whether a request on the port can have this path, method or host."""
        grpc = port.protocol is Protocol.GRPC
        if item.word == "method" and grpc and value != "POST":
            self._wrong(
                item, "every gRPC call is a `POST`", "remove the method; `path` names the method of the service"
            )
        elif item.word == "method" and not _METHOD.fullmatch(value):
            self._wrong(item, f"`{value[:40]}` is not a method", 'methods are words such as `"GET"`')
        elif item.word == "host" and not _HOST.fullmatch(value):
            self._wrong(item, f"`{value[:60]}` is not a host", 'write a name, as in `host "api.example.com"`')
        elif item.word == "path" and grpc and not _GRPC_PATH.fullmatch(value):
            self._wrong(item, f"`{value[:60]}` is no method of gRPC", 'write `path "/package.Service/Method"`')
        elif item.word == "path" and not value.startswith("/"):
            self._wrong(item, "a path starts with `/`", f'write `path "/{value[:60]}"`')
        elif item.word == "path" and not _IN_PATHS.fullmatch(value):
            hint = "leave out the part from `#` on, and write blanks and letters beyond ASCII as in `%20`"
            self._wrong(item, "no request has such a path", hint)
        else:
            return True
        return False

    def _wrong(self, item: tree.TestItem, message: str, hint: str) -> None:
        self.diagnostics.error("ADM842", message, item.span, hint=hint)
