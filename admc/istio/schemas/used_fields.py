"""The fields of Kubernetes objects that are used, with their types. All others are neither kept nor checked.

    object --kept--> the same with these fields alone

A cluster has thousands of pods, so what is not used is dropped as soon as an object is read. Of resources of Istio and
the Gateway API all is kept but the status, of a Secret nothing but its name. The texts of an application's ConfigMaps,
and what refers to them, are kept only to guess calls.
"""

from __future__ import annotations

from typing import Any, Final

from admc.istio.schemas.data import kinds

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": ["string", "null"]}
NUMBER: Final[Schema] = {"type": ["integer", "null"]}
COUNT: Final[Schema] = {**NUMBER, "minimum": 0, "maximum": 2**31 - 1}
TRUTH: Final[Schema] = {"type": ["boolean", "null"]}
TEXTS: Final[Schema] = {"type": ["object", "null"], "additionalProperties": TEXT}
ANYTHING: Final[Schema] = {}


def _mapping(**properties: Schema) -> Schema:
    return {"type": ["object", "null"], "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": ["array", "null"], "items": items}


METADATA: Final = _mapping(
    name=TEXT,
    generateName=TEXT,
    namespace=TEXT,
    uid=TEXT,
    labels=TEXTS,
    annotations=TEXTS,
    creationTimestamp=TEXT,
    deletionTimestamp=TEXT,
    ownerReferences=_list(_mapping(apiVersion=TEXT, kind=TEXT, name=TEXT, controller=TRUTH)),
)
NAMED: Final = _mapping(metadata=METADATA)
_PORT_OR_NAME: Final[Schema] = {"type": ["integer", "string", "null"]}
_CONFIG_MAP: Final = _mapping(name=TEXT, optional=TRUTH, key=TEXT, items=_list(_mapping(key=TEXT)))
"""A reference to a ConfigMap, or to some of its keys."""
_CONTAINER: Final = _mapping(
    name=TEXT,
    restartPolicy=TEXT,
    command=_list(ANYTHING),
    args=_list(ANYTHING),
    env=_list(_mapping(name=TEXT, value=ANYTHING, valueFrom=_mapping(configMapKeyRef=_CONFIG_MAP))),
    envFrom=_list(_mapping(configMapRef=_CONFIG_MAP)),
    ports=_list(_mapping(name=TEXT, containerPort=NUMBER, protocol=TEXT)),
)
_VOLUME: Final = _mapping(configMap=_CONFIG_MAP, projected=_mapping(sources=_list(_mapping(configMap=_CONFIG_MAP))))
_POD_SPEC: Final = _mapping(
    hostNetwork=TRUTH,
    serviceAccountName=TEXT,
    containers=_list(_CONTAINER),
    initContainers=_list(_CONTAINER),
    volumes=_list(_VOLUME),
)
_REFERENCES: Final = frozenset(("envFrom", "valueFrom", "volumes"))
"""The fields that refer to ConfigMaps."""
_TEMPLATE: Final = _mapping(metadata=_mapping(labels=TEXTS, annotations=TEXTS), spec=_POD_SPEC)
_SELECTOR: Final = _mapping(
    matchLabels=TEXTS, matchExpressions=_list(_mapping(key=TEXT, operator=TEXT, values=_list(TEXT)))
)
_WORKLOAD: Final = _mapping(spec=_mapping(replicas=COUNT, template=_TEMPLATE))
_JOB: Final = _mapping(spec=_mapping(parallelism=COUNT, template=_TEMPLATE))
_MESH: Final = _mapping(spec=_mapping(revision=TEXT, meshConfig=ANYTHING, namespace=TEXT, values=ANYTHING))

FIELDS: Final[dict[tuple[str, str], Schema]] = {
    ("", "Namespace"): _mapping(),
    ("", "Pod"): _mapping(spec=_POD_SPEC, status=_mapping(phase=TEXT)),
    ("", "PodTemplate"): _mapping(template=_TEMPLATE),
    ("", "ReplicationController"): _WORKLOAD,
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "StatefulSet"): _WORKLOAD,
    ("apps", "DaemonSet"): _WORKLOAD,
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("batch", "Job"): _JOB,
    ("batch", "CronJob"): _mapping(spec=_mapping(jobTemplate=_JOB)),
    ("", "Service"): _mapping(
        spec=_mapping(
            type=TEXT,
            clusterIP=TEXT,
            externalName=TEXT,
            selector=TEXTS,
            ports=_list(
                _mapping(name=TEXT, port=NUMBER, targetPort=_PORT_OR_NAME, protocol=TEXT, appProtocol=TEXT),
            ),
        )
    ),
    ("", "ConfigMap"): _mapping(data=TEXTS),
    ("autoscaling", "HorizontalPodAutoscaler"): _mapping(
        spec=_mapping(scaleTargetRef=_mapping(apiVersion=TEXT, kind=TEXT, name=TEXT), minReplicas=COUNT)
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _mapping(
        webhooks=_list(_mapping(name=TEXT, namespaceSelector=_SELECTOR, objectSelector=_SELECTOR))
    ),
    ("install.istio.io", "IstioOperator"): _MESH,
    ("sailoperator.io", "Istio"): _MESH,
    ("sailoperator.io", "IstioRevision"): _MESH,
    ("sailoperator.io", "IstioRevisionTag"): _mapping(spec=_mapping(targetRef=_mapping(kind=TEXT, name=TEXT))),
}
_UNKNOWN: Final = _mapping(spec=_mapping(replicas=COUNT, template=_TEMPLATE))
"""A kind that admc does not know may make pods of a template, as an Argo Rollout does."""
ISTIO_KEYS: Final = "istio.io/"
"""What the annotations that are used have in their names."""
MESH_CONFIG: Final = "istio"
"""The beginning of the names of ConfigMaps with a MeshConfig."""


def group_and_kind(data: dict[str, Any]) -> tuple[str, str]:
    version = data.get("apiVersion")
    kind = data.get("kind")
    return str(version or "").rpartition("/")[0], str(kind or "")


def fields_of(group: str, kind: str) -> Schema:
    """The used fields of a kind of Kubernetes, or of one that admc does not know."""
    return FIELDS.get((group, kind), _UNKNOWN)


def kept(data: Any) -> Any:
    """An object with the fields that are used."""
    return _kept(data, _REFERENCES)


def kept_with_texts(data: Any) -> Any:
    """An object with the fields that are used to guess calls, too."""
    return _kept(data, frozenset())


def _kept(data: Any, left_out: frozenset[str]) -> Any:
    if not isinstance(data, dict) or "kind" not in data:
        return data  # an object may have its kind from the list around it
    group, kind = group_and_kind(data)
    made = {name: data[name] for name in ("apiVersion", "kind", "items") if name in data}
    if "metadata" in data:
        made["metadata"] = _metadata(data["metadata"])
    if (group, kind) in kinds():
        return {**{name: value for name, value in data.items() if name != "status"}, **made}
    if (group, kind) == ("", "Secret"):
        return made
    fields = fields_of(group, kind)
    if left_out and (group, kind) == ("", "ConfigMap") and not _is_mesh_config(made):
        fields = _mapping()
    return {**_masked(data, fields, left_out), **made}


def _is_mesh_config(data: dict[str, Any]) -> bool:
    name = data.get("metadata", {}).get("name") if isinstance(data.get("metadata"), dict) else None
    return isinstance(name, str) and name.startswith(MESH_CONFIG)


def _metadata(data: Any) -> Any:
    made = _masked(data, METADATA, frozenset())
    if isinstance(made, dict):
        annotations = made.get("annotations")
        if isinstance(annotations, dict):
            made["annotations"] = {key: value for key, value in annotations.items() if ISTIO_KEYS in key}
    return made


def _masked(data: Any, fields: Schema, left_out: frozenset[str]) -> Any:
    properties = fields.get("properties")
    if properties is not None and isinstance(data, dict):
        return {
            name: _metadata(data[name]) if name == "metadata" else _masked(data[name], inner, left_out)
            for name, inner in properties.items()
            if name in data and name not in left_out
        }
    items = fields.get("items")
    if items is not None and isinstance(data, list):
        return [_masked(item, items, left_out) for item in data]
    return data
