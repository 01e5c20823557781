"""The results of `admc test` as text: a line for each test, and an observation for each test that fails."""

from __future__ import annotations

from admc.base.terminal import counted, visible
from admc.review.program_tests.results import FileResults, RunResults
from admc.review.program_tests.verdict import Failed, Passed, Result

_WIDEST = 40


def render(run: RunResults) -> str:
    return "".join(_program(program) for program in run.programs)


def _program(program: FileResults) -> str:
    shown = visible(program.path)
    if not program.results:
        return f"{shown}: not run, because of errors\n"
    width = min(max(len(test.name) for test, _ in program.results), _WIDEST)
    lines = [f"{shown}: {_summary([result for _, result in program.results])}"]
    for test, result in program.results:
        line = f"  {_word(result):<9}  {visible(test.name):<{width}}"
        if isinstance(result, Failed):
            line += f"  line {test.span.line}: {visible(result.observation)}"
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def _summary(results: list[Result]) -> str:
    parts = [counted(len(results), "test")]
    for word in ("failed", "undecided"):
        number = sum(_word(result) == word for result in results)
        parts += [f"{number} {word}"] if number else []
    return ", ".join(parts) + ("" if len(parts) > 1 else ", all passed" if len(results) > 1 else ", passed")


def _word(result: Result) -> str:
    if isinstance(result, Passed):
        return "passed"
    return "failed" if isinstance(result, Failed) else "undecided"
