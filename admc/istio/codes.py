"""Codes about meshes with Istio: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

READING: Mapping[str, tuple[str, ...]] = {
    "ADM910": (
        "manifests that are not rendered",
        "`admc advise` reads manifests as a cluster gets them. In a template of Helm, in the source of a kustomization "
        "or with variables, names, namespaces and fields are others, or not known. Render them first, and give the "
        "result: `helm template`, `kustomize build` or `envsubst`, with `| admc advise -`. `--raw` reads them as they "
        "are, and says so.",
        "",
        "kustomize build overlays/production | admc advise -",
    ),
    "ADM911": (
        "an object of a kind that is not there",
        "The API groups of Istio and the Gateway API have certain kinds and versions, and this object has another one, "
        "or none. Istio has given up some groups: `rbac.istio.io` and `authentication.istio.io` with 1.6, Mixer's "
        "`config.istio.io` with 1.8. A cluster with a current Istio would refuse such an object, so nothing enforces "
        "it. Kinds of other groups are no error.",
    ),
    "ADM912": (
        "a resource of Istio that does not fit its schema",
        "The schemas are those of the custom resources of Istio and of the Gateway API. Unknown fields are refused: an "
        "API server stores a resource without them, and without its selector, say, a resource applies to all pods. "
        "The versions of both are in the data file (`docs/istio.md`).",
        "kind: PeerAuthentication\nspec: { selectors: { matchLabels: { app: cart } } }",
        "kind: PeerAuthentication\nspec: { selector: { matchLabels: { app: cart } } }",
    ),
    "ADM913": (
        "a resource that breaks a rule of its kind",
        "Besides its schema, a custom resource has rules in CEL, such as that a timeout is at least a millisecond, or "
        "that two fields exclude each other. An API server refuses a resource that breaks one. The message is that of "
        "the rule.",
    ),
    "ADM914": (
        "two objects with one name",
        "Two manifests have the same kind, namespace and name, and different contents, as in two overlays of one "
        "application. A cluster has one of them, so numbers about both would be wrong. Give one environment at a time.",
    ),
    "ADM918": (
        "a field of Kubernetes has a value of another type",
        "Of Kubernetes' own objects `admc advise` reads some fields only: labels, annotations, containers, ports, "
        "selectors, replicas. One of them has a value that no API server takes. In YAML `yes`, `on` and `off` are "
        "truth values: in a label or an annotation they need quotes.",
        "annotations: { sidecar.istio.io/inject: no }",
        'annotations: { sidecar.istio.io/inject: "false" }',
    ),
    "ADM984": (
        "there are no manifests to read",
        "The folder has no file that ends in `.yaml`, `.yml` or `.json`, or too many. Hidden folders and links to "
        "folders are left out.",
    ),
}

MESH: Mapping[str, tuple[str, ...]] = {
    "ADM915": (
        "it is declared nowhere which pods have a sidecar",
        "Pods have a sidecar by their container `istio-proxy`, by the labels `istio-injection` and `istio.io/rev` of "
        "their namespace, or by their own labels; an annotation alone calls no webhook. These manifests have none of "
        "that: often the labels are set by hand, or in another repository. Give the namespaces, or the pods themselves "
        "(`kubectl get namespaces,pods -A -o yaml`), or say it with `--injected`.",
        "",
        "admc advise --injected shop,payments mesh/",
    ),
    "ADM916": (
        "a mesh configuration that cannot be read",
        "The MeshConfig in a ConfigMap `istio`, in an IstioOperator or in Sail's `Istio` is no YAML, or a field has a "
        "value of another type. istiod does not start with it, or goes on with the configuration from before.",
    ),
    "ADM917": (
        "a field that the mesh configuration does not have",
        "istiod reads over a field of MeshConfig that it does not know, without an error: the setting has no effect. "
        "Often it is misspelt, or belongs to another version of Istio.",
    ),
    "ADM919": (
        "a resource that names a host or a subset that is not there",
        "A route, or a DestinationRule, names a host that no Service and no ServiceEntry of these manifests has, or a "
        "subset that no DestinationRule of the host has. Such a DestinationRule is in force nowhere, and such a route "
        "leads to no endpoint. A name without a dot is a Service of the resource's own namespace. Where no Service and "
        "no ServiceEntry is given, one warning says that no host is compared.",
    ),
    "ADM980": (
        "all destinations of a route have the weight 0",
        "No destination would get a request. Istio refuses such a VirtualService.",
    ),
    "ADM981": (
        "two Sidecars for one workload",
        "A namespace may have one Sidecar without a selector, and a workload may be selected by one. With two, Istio "
        "leaves open which of them holds.",
    ),
    "ADM988": (
        "`--injected` names a namespace that is not there",
        "No object of the manifests is in the namespace, so the option would have no effect. Objects that name no "
        "namespace are in that of `--namespace`, which is `default` unless given.",
    ),
    "ADM982": (
        "a setting of the injector that admc does not read",
        "Selectors of the injector's own (`neverInjectSelector`, `alwaysInjectSelector`) decide about some pods, in "
        "spite of labels of namespaces. Which pods have a sidecar then is known of running pods only.",
    ),
    "ADM983": (
        "a label that names an unknown revision of Istio",
        "A namespace or a pod asks for its sidecar from a revision, or a tag, that none of the given objects has. If "
        "there is no such revision, the pods get no sidecar. Give its mesh configuration or its webhook, too.",
    ),
    "ADM985": (
        "a mesh without workloads",
        "No object of these manifests makes pods, so nothing says which sidecars there are. Give Deployments, "
        "StatefulSets and so on, or the pods themselves.",
    ),
    "ADM986": (
        "a part of the cluster that the caller may not read",
        "`admc advise --cluster` reads with the rights of the caller. Of a kind that it may not list in all namespaces "
        "it knows nothing, and the numbers lack it.",
    ),
}

FORCE: Mapping[str, tuple[str, ...]] = {
    "ADM989": (
        "fields of HTTP at a port without HTTP",
        "A rule of an AuthorizationPolicy has fields that only HTTP has (paths, methods, hosts, tokens, headers), and "
        "holds at a port whose protocol is TCP or TLS. There Istio leaves out such a rule of an ALLOW, which then "
        "admits less. Of a DENY it leaves out the fields alone, so the rule refuses more than it says.",
        'action: DENY\nrules: [{ to: [{ operation: { paths: ["/admin"] } }] }]',
        'action: DENY\nrules: [{ to: [{ operation: { paths: ["/admin"], ports: ["8080"] } }] }]',
    ),
    "ADM990": (
        "an ALLOW beside an ALLOW of everything",
        "A request passes if any ALLOW for its workload admits it. An ALLOW with an empty rule admits every request, "
        "so each other ALLOW for the same workload refuses nothing.",
    ),
    "ADM991": (
        "which of two resources counts depends on their age",
        "Of two resources for the same host or the same workloads Istio takes the older one. Manifests in files name "
        "no time of creation, so admc takes the first by name, and a cluster may have it the other way round. Objects "
        "that were read from a cluster have their times.",
    ),
    "ADM992": (
        "a resource that is in force nowhere",
        "A resource, or a part of it, does nothing at any sidecar: it selects no workload, no Service has its host, "
        "no route leads to its subset, another resource goes before it, or Istio does the same without it. It is a "
        "note, since others may need it later; `--fail-on ADM992` makes it a failure.",
    ),
    "ADM993": (
        "calls that cannot be read",
        "`--calls` takes what Prometheus answers to a query for `istio_requests_total` or "
        "`istio_tcp_connections_opened_total`, by `source_workload`, `source_workload_namespace` and "
        "`destination_service` (`docs/istio.md` has the queries), or a topology with `services` and `calls`, as a "
        "program may have it. The names of a topology are those of workloads and Services.",
    ),
    "ADM994": (
        "the file is not an advice",
        "`admc report` draws what `admc advise --format json` writes. The cause says which field does not fit, or what "
        "refers to a common reason that is not there, or twice to one. One of another version of admc has to be "
        "written again. If the manifests have errors, `admc advise` ends before it advises, and its JSON has findings "
        "alone; with `--keep-going` it advises without what was refused.",
        "",
        "admc advise mesh/ --format json > ADVICE.json\nadmc report ADVICE.json -o advice.html",
    ),
    "ADM995": (
        "calls that may lack some",
        "The file of `--calls` can be read, and probably has not all calls: Prometheus says so, no counter grew, or no "
        "caller or no host is one of this mesh. Then sidecars are counted as ones without a reason that do something "
        "for a call. Compare the query with that of `docs/istio.md`, and the cluster with that of the manifests.",
    ),
}

INSTALLED: Mapping[str, tuple[str, ...]] = {
    "ADM987": (
        "packages for `admc advise` are missing",
        "`admc advise` checks resources with a library for JSON Schema and one for CEL, which the server of a cluster "
        "does not need. Install them with `pip install 'admc[istio]'`.",
    ),
}

CODES: Mapping[str, tuple[str, ...]] = {**READING, **MESH, **FORCE, **INSTALLED}
