"""Manifests of any kind and style, from the text to the text: a second time changes nothing, and all that has nothing
to do with an ADM stays as it is, byte by byte."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.inject.model import Installation
from admc.kubernetes.inject.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.needs import Needs
from admc.kubernetes.inject.plan_rows import PlanRows, PortRow, ServiceRow
from admc.kubernetes.inject.rewrite import Rewritten, manifests_of, rewritten
from admc.kubernetes.inject.services import Services
from admc.kubernetes.inject.spec import Captures
from admc.manifests.documents import at, objects
from admc.manifests.read import read
from tests.properties import examples

HERE = Installation("one", "admc-one.default.svc:1", "admc:1", "envoy:1")
WANTED = PlanRows(
    "shop",
    {
        "rate": ServiceRow(
            "shop",
            "rate",
            {"app": "rate"},
            Needs(Captures((9000,), (27017,)), waits=True),
            (PortRow(9000, 9000, ("known",), ()),),
            ("readers",),
            (),
            (),
            host_network=False,
        ),
        "cart": ServiceRow(
            "shop", "cart", {"app": "cart"}, Needs(None, waits=True), (), (), (), (), host_network=False
        ),
    },
)
PATHS = {
    "Pod": ("v1", 0),
    "Deployment": ("apps/v1", 1),
    "StatefulSet": ("apps/v1", 1),
    "DaemonSet": ("apps/v1", 1),
    "Job": ("batch/v1", 1),
    "CronJob": ("batch/v1", 2),
}
SCALARS = st.sampled_from(
    [
        "on",
        "y",
        "0123",
        "08",
        "22:22",
        "1e3",
        "0o17",
        "1_000",
        "~",
        "2026-11-23",
        "'on'",
        '"0123"',
        "a b",
        '"# no"',
        "100m",
    ]
)
COMMENTS = st.sampled_from(["", "", "", "  # note", " # - name: x", "   #"])
OTHERS = [
    "apiVersion: v1\nkind: Service\nmetadata: {name: rate, namespace: shop}\n"
    "spec: {selector: {app: rate}, ports: [{port: 9000}]}\n",
    "# alone\napiVersion: example.com/v1\nkind: Anything\nspec:\n  containers: [0123, on, 22:22]   # as it is\n",
    'apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    spec:\n      containers: []\n    # no comment\n  "b": 1\n',
]


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """A workload as YAML: the lines before its template's containers, these, and those after them."""
    kind = draw(st.sampled_from(sorted(PATHS)))
    version, depth = PATHS[kind]
    note = draw(st.lists(COMMENTS, min_size=30, max_size=30))
    notes = iter(note)

    def line(level: int, text: str) -> str:
        return f"{'  ' * level}{text}{next(notes, '')}"

    name = draw(st.sampled_from(["rate", "cart", "other"]))
    labels = draw(st.sampled_from([f"{{app: {name}}}", f'{{"app": {name}, tier: db}}']))
    metadata = [line(0, "metadata:"), line(1, f"name: {name}"), line(1, "namespace: shop")]
    if depth == 0:
        metadata.append(line(1, f"labels: {labels}"))
    above = [line(0, f"apiVersion: {version}"), line(0, f"kind: {kind}"), *metadata]
    level = 0
    for part in {0: (), 1: ("spec", "template"), 2: ("spec", "jobTemplate", "spec", "template")}[depth]:
        above.append(line(level, f"{part}:"))
        level += 1
    if depth and draw(st.booleans()):
        above += [line(level, f"metadata: {{labels: {labels}, annotations: {{x: {draw(SCALARS)}}}}}")]
    elif depth:
        above += [line(level, "metadata:"), line(level + 1, f"labels: {labels}")]
        above += [line(level + 1, "annotations:"), line(level + 2, f"x: {draw(SCALARS)}")]
    above += [line(level, "spec:")]
    level += 1
    hung = draw(st.booleans())
    containers = [line(level, "containers:")]
    for number in range(draw(st.integers(1, 3))):
        start = "  " * (level + hung)
        arguments = [draw(SCALARS) for _ in range(draw(st.integers(0, 2)))]
        if draw(st.booleans()):
            containers.append(
                f"{start}- {{name: c{number}, image: m, args: [{', '.join(arguments)}]}}{next(notes, '')}"
            )
            continue
        containers.append(f"{start}- name: c{number}{next(notes, '')}")
        containers.append(f"{start}  image: 'm:{number}'{next(notes, '')}")
        if arguments:
            containers += [f"{start}  args:", *(f"{start}  - {each}{next(notes, '')}" for each in arguments)]
        if draw(st.booleans()):
            containers += [f"{start}  securityContext:", f"{start}    runAsUser: 0644{next(notes, '')}"]
    below = [line(level, f"terminationGracePeriodSeconds: {draw(st.sampled_from(['0', '0x1f', '30']))}")]
    if draw(st.booleans()):
        below += [line(level, "volumes:"), line(level, "- name: data"), line(level, "  emptyDir: {}")]
    return name, [*above, *containers], below


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A stream of documents, and the parts of it that must stay."""
    stays: list[str] = []
    documents = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            documents.append(draw(st.sampled_from(OTHERS)))
            stays.append(documents[-1])
            continue
        name, lines, below = draw(templates())
        documents.append("\n".join([*lines, *below]) + "\n")
        if name == "other":
            stays.append(documents[-1])
        else:
            # An annotation is added, and what is in flow style around it is written anew.
            stays += [each for each in lines if not any(text in each for text in ("name: c", "args", "metadata: {"))]
    text = "---\n".join(documents)
    if draw(st.booleans()):
        return text.replace("\n", "\r\n"), [each.replace("\n", "\r\n") for each in stays]
    return text, stays


def rewritten_by_plan(name: str, text: str) -> Rewritten:
    manifests = manifests_of([(name, text.encode())])
    services = Services(WANTED, manifests.objects, HERE.server)
    return rewritten(manifests, services.injections, HERE, services)


def made(text: str) -> Rewritten:
    found = rewritten_by_plan("app.yaml", text)
    assert not found.refused, found.findings
    return found


def specs(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = [it for document in read("app.yaml", text.encode()) for it in objects(document)]
    return [(each.name, at(each.data, each.template)["spec"]) for each in found if each.template is not None]


@given(streams())
@examples(150)
def test_from_text_to_text(stream: tuple[str, list[str]]) -> None:
    text, stays = stream
    found = made(text)
    new = found.texts[0]
    assert made(new).texts == (new,)
    at_ = 0
    if not any("comments" in each.message for each in found.findings):
        for part in stays:
            at_ = new.index(part, at_) if part in new[at_:] else -1
            assert at_ >= 0, part
    assert ("\r\n" in new) == ("\r\n" in text)
    for (name, before), (_, after) in zip(specs(text), specs(new), strict=True):
        own = [each["name"] for each in after.get("initContainers", ()) if each["name"].startswith("admc-")]
        wanted = {"rate": [RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER], "cart": [WAIT_CONTAINER], "other": []}[name]
        assert own == wanted
        assert [each["args"] for each in after["containers"] if "args" in each] == [
            each["args"] for each in before["containers"] if "args" in each
        ]
        assert after["terminationGracePeriodSeconds"] == before["terminationGracePeriodSeconds"]
