"""Codes about a cluster: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

INJECTION: Mapping[str, tuple[str, ...]] = {
    "ADM920": (
        "a pod template is not as Kubernetes has it",
        "`admc inject` found a value of another type where a pod template has its containers, volumes, ports, "
        "annotations or security contexts. The API server would refuse it, too. "
        "`kubectl apply --dry-run=server -f FILE` says more.",
    ),
    "ADM921": (
        "a container or volume of the user has a name of admc's",
        "admc gives its containers the names `admc-rules`, `admc-proxy` and `admc-wait`, and its volumes `admc-config` "
        "and `admc-token`. It replaces those that it wrote, and no others. Give yours another name; if an earlier "
        "`admc inject` wrote it and it was edited since, remove it.",
    ),
    "ADM922": (
        "the pod can host no ADM",
        "A pod on its node's network shares its packet filter with the whole node, and a pod on Windows has none that "
        "admc knows. Declare the service `host_network` or `no adm` in the program and compile again: policies then "
        "go to the other side of its calls.",
    ),
    "ADM923": (
        "a probe or a hook of a port whose connections are redirected",
        "The kubelet sends a probe or a hook to the pod's address from the node. If the port has policies at ingress, "
        "the connection would meet them, as that of a caller that they do not know. So `admc inject` points such a "
        "probe at the ADM, which answers from a health check of its own. Here it cannot: the probe has a path, a "
        "header or a field that admc does not pass on exactly as the kubelet would, or it is a hook, which has to "
        "reach the process. The message says what. Let it ask another port, or make it an `exec` probe, which runs in "
        "the container: connections on loopback pass no ADM.",
    ),
    "ADM924": (
        "a container runs as the ADM's user",
        "The packet filter of a pod tells by the user id what the ADM opens, and lets it pass. Another container with "
        "that id would go round every policy of its service. Give it another `runAsUser`.",
    ),
    "ADM925": (
        "a container listens at a port of the ADM",
        "All containers of a pod share its ports. The ADM needs six of them: 15000 on loopback shows its state, 15001 "
        "and 15006 take redirected connections, 15021 answers its startup probe, 15022 the probes of the pod, and "
        "15023 receives the report of the end of the pod.",
    ),
    "ADM926": (
        "a pod template is of two services",
        "The Services in the given manifests, or else the labels in the program, select the pods of this template for "
        "two services of the program, or the Services in the cluster do. Each would have an ADM of its own in every "
        "pod, and the rules of one would replace those of the other. Where one of the two needs the wait alone, it is "
        "the same: the pod's address would be that of two services, which the server refuses (`ADM942`). So neither "
        "`admc inject` nor the webhook puts anything into such a pod, and if a service is guarded, the API server "
        "refuses the pod. Give each service pods of its own, or declare one service with the ports of both.",
        "service web { http 80 -> 8080 }\nservice admin { http 90 -> 9090 }",
        "service web { http main 80 -> 8080  http admin 90 -> 9090 }",
    ),
    "ADM928": (
        "an injected pod has something that its ADM does not hold against",
        "A warning: the manifests were written. Another mesh redirects the connections of the pod as well, a container "
        "loses a capability that it asked for, a pod may not find the server, or a document lost its comments because "
        "it is in a style that admc does not edit in place. The message says which, and what to do.",
    ),
    "ADM947": (
        "a pod template in an object of a kind that admc does not know",
        "`admc inject` changes the pod templates of Pods, Deployments, StatefulSets, DaemonSets, ReplicaSets, "
        "ReplicationControllers, Jobs, CronJobs and PodTemplates. An object of another kind has containers, such as an "
        "Argo Rollout or a Knative Service. What its controller does with them is not known, so the pods would run "
        "without the ADM and the wait that the plan counts on. `--skip-unknown` lets such objects pass as they are: "
        "for those whose pods are of no service of the program, or of one without a policy.",
        "",
        "admc inject --plan policies.plan.json --cluster shop -f app.yaml --skip-unknown",
    ),
    "ADM948": (
        "there is a way round the ADMs that the plan counts on",
        "A plan that is compiled from files relies on what the program says of its services. Here a pod template has a "
        "container that can go round its ADM (it is privileged, has NET_ADMIN, or may become the ADM's user), or a "
        "Service leads to a port with policies by another port number, which the ADMs of callers do not know. It is an "
        "error where a guard rests on a container that certainly can; otherwise a warning. A server that follows a "
        "cluster sees containers by itself.",
        "service api { http 8080 }",
        "service api { http 8080  untrusted }",
    ),
    "ADM949": (
        "it is not clear in which namespace an object is",
        "A service of the program has a namespace, and so has each object. `-n NAMESPACE` is that of the objects that "
        "name none, as for `kubectl`; an object that names another one is refused. Without `-n`, an object that names "
        "none counts as one of `default`; where its pods would be of a service in another namespace, that is an error: "
        "`kubectl` would put it into the namespace of its context.",
        "",
        "admc inject -n shop --plan policies.plan.json --cluster shop -f app.yaml | kubectl apply -n shop -f -",
    ),
    "ADM929": (
        "it is not known which server the pods belong to",
        "Pods need the name of the installation (`--cluster NAME`) for their token and their ConfigMap, and the "
        "address of its xDS server (`--xds HOST:PORT`). With `admc inject NAME`, the installation is NAME, and its "
        "`Injection` objects have the address.",
        "admc inject --plan policies.plan.json -f app.yaml",
        "admc inject --plan policies.plan.json --cluster shop -f app.yaml",
    ),
}

PODS: Mapping[str, tuple[str, ...]] = {
    "ADM960": (
        "arguments that a program of a pod does not take",
        "`python -m admc.pod` runs in the init containers that `admc inject` writes, with the arguments that it "
        "writes. These are others: the pod's manifest was changed by hand, or its image is of another version of admc "
        "than the manifest. Write the manifest again with `admc inject`.",
        "",
        "python -m admc.pod rules --service shop/search --ingress 8082,9090 --egress 27017",
    ),
    "ADM961": (
        "a pod's packet filter cannot be used",
        "The container `admc-rules` redirects a pod's connections to its ADM with iptables, in whichever flavour works "
        "(nft or legacy), for IPv4 and, where the pod has it, for IPv6. Here the image has no iptables, the "
        "kernel has no packet filter for one of them, or the container lacks root or NET_ADMIN.",
    ),
    "ADM962": (
        "a pod's rules were not loaded",
        "The command that loads the rules failed, or the rules were not there afterwards. The message has its words. "
        "Rules that were loaded for one family stay; the pod does not start until all are loaded. What the kernel "
        "needs: `nat`, `REDIRECT`, `REJECT`, `conntrack`, `connmark`, `comment`, `addrtype` and `owner`.",
    ),
    "ADM963": (
        "the rules of another service are loaded in this pod",
        "One pod hosts one ADM. Rules of another service are not replaced: its ADM would see no connection any "
        "more. Give each service a pod of its own.",
    ),
}

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "ADM930": (
        "the spec of a `Program` is not as it should be",
        "A `Program` names its installation in `spec.controller`, and has its files in `spec.files`, or names "
        "ConfigMaps in `spec.configMaps`: one of the two. `spec.services` names services of the program, each with its "
        "Service. The message names the field. The API server refuses most of this when the object is applied; what "
        "it cannot check, or what a definition of another version admits, the server of the installation finds.",
    ),
    "ADM931": (
        "a ConfigMap does not have the content that the `Program` names",
        "`spec.configMaps` names each file of a program with the SHA-256 of its content, so that a program changes "
        "whole or not at all. For a file that is packed with gzip, it is the digest of the unpacked content. While "
        "one of them differs, the last good plan stays in force. Apply the right content, or the right digest: "
        "`sha256sum FILE`. A file in `binaryData` whose key ends in `.gz` has to be one whole gzip file.",
    ),
    "ADM932": (
        "a ConfigMap of a `Program` is not there",
        "The ConfigMaps of `spec.configMaps` are in the namespace of the installation. The server looks for one that "
        "is missing every few seconds, and goes on once it is there. Until then the last good plan stays in force.",
    ),
    "ADM933": (
        "a program is too large",
        "Files in `binaryData` of a ConfigMap are packed with gzip. They are unpacked up to a bound, so that a small "
        "file cannot fill the memory of the server. A program has at most 64 MB in all.",
    ),
    "ADM934": (
        "another `Program` is served",
        "An installation serves one `Program`: of those that name it in `spec.controller`, the oldest. Remove one of "
        "them, or let it name another installation.",
    ),
    "ADM935": (
        "the API server refuses a request of admc",
        "Commands about a cluster read its objects with the permissions of the account in the kubeconfig, and a server "
        "reads and writes with those of its service account. The cause is what the API server says: it names the verb, "
        "the resource and the namespace. Reading a plan needs the verb `get` on the `Program` and on ConfigMaps in the "
        "namespace of the server. A server tries again by itself, and goes on once the right is granted.",
    ),
    "ADM936": (
        "two installations claim one service",
        "A service has policies of one installation: of the `Program` that is older. Its namespace takes part in the "
        "installation that the label `admc.dev/controller` of the namespace names. Leave the service out of one of "
        "the programs, or wait until the older one has given it up.",
    ),
    "ADM937": (
        "another NetworkPolicy admits more to a closed destination",
        "A policy for every caller is enforced at the senders, so its ports are closed to all other callers by a "
        "NetworkPolicy. NetworkPolicies add up: another one that selects the same pods may admit more. A policy "
        "counts as such unless it is certain that it admits no more: its pods are others (as by `app NotIn [db]`), or "
        "its rules are about other ports, or about senders that the program declares. Narrow it, or pin the policies "
        "of the destination at ingress.",
    ),
    "ADM938": (
        "the plan in the cluster cannot be used",
        "`admc plan NAME` reads the plan from ConfigMaps and compares their digests. One was changed or removed by "
        "hand, or the plan is being replaced at this moment. The server writes it again within seconds: try again, "
        "and look at the condition `Accepted` of the `Program` if it stays like this.",
    ),
    "ADM939": (
        "there is no plan of such a `Program` in the cluster",
        "`admc plan NAME` reads the `Program` of that name, and the ConfigMaps that its status names. A `Program` has "
        "no plan before a server of its installation has compiled it: its condition `Accepted` says why.",
    ),
}

ANNOTATIONS: Mapping[str, tuple[str, ...]] = {
    "ADM958": (
        "an annotation of admc's has a value that it cannot have",
        '`admc.dev/inject` is `"false"` or `"true"`. `admc.dev/adm-cpu`, `admc.dev/adm-memory`, '
        "`admc.dev/adm-cpu-limit` and `admc.dev/adm-memory-limit` are amounts: CPU in whole millicores (`500m`) or "
        "cores (`2`), memory in Ki, Mi or Gi (`256Mi`), and a request is at most its limit. Values of annotations are "
        "texts, so write them in quotes. `admc inject` refuses such a template; the webhook lets the pod pass without "
        "an ADM, with a warning.",
        "",
        "annotations: { admc.dev/adm-memory: 256Mi, admc.dev/adm-memory-limit: 512Mi }",
    ),
    "ADM959": (
        "a pod keeps its ADM out",
        'With the annotation `admc.dev/inject: "false"` a pod gets nothing of admc, although its service needs it. The '
        "pod counts as one without redirection: a rollout that needs it waits, and `Programmed` names the pod.",
    ),
}

INJECTIONS: Mapping[str, tuple[str, ...]] = {
    "ADM955": (
        "an `Injection` object would be too large",
        "The server writes what the pods of a namespace need into one object, and etcd refuses objects of more than "
        "1.5 MB. Nothing is cut: above 1 MB the stored object stays, and a plan that needs something new in its "
        "namespace is not begun; the last good plan stays in force. The object has the services of its namespace that "
        "need an ADM or a wait, so distribute them over several namespaces, or give their Services selectors with "
        "fewer labels.",
    ),
    "ADM956": (
        "an `Injection` object cannot be written",
        "The server writes what pods need before it begins a plan, so that a pod which starts meanwhile has it. Here "
        "the API server refuses the object, does not know its kind, or does not answer. A plan that needs something in "
        "that namespace which the stored object does not have is not begun; the last good plan stays in force, and the "
        "server tries again by itself. The cause is what the API server says.",
    ),
    "ADM957": (
        "what the pods of a namespace need is not known",
        "`admc inject NAME` reads the `Injection` of that name in each namespace of the given manifests that has a "
        "pod. The active server of the installation NAME writes it, once a Program is in force, in the namespaces with "
        "the label `admc.dev/controller: NAME` where pods need something. Here it is not there, or not as admc writes "
        "it, or the cluster does not have the kind.",
        "",
        "kubectl get injections -A",
    ),
}

GUARD: Mapping[str, tuple[str, ...]] = {
    "ADM975": (
        "a pod of a guarded service lacks what the plan in force needs",
        "The chart's policy `admc-NAME-guard` makes the API server refuse such a pod: its requests, or requests to it, "
        "would meet no policy. A service is guarded from the moment that no pod of it lacks anything. So the template "
        "is an earlier one (as after `kubectl rollout undo`), was written without `admc inject`, or names the labels "
        "of a service that it is not of. Pass the manifest through `admc inject NAME`, or take the labels away. The "
        "message names the service and what is missing.",
        "kubectl run debug --image busybox --labels app=cart",
        "admc inject main -f cart.yaml | kubectl apply -f -",
    ),
    "ADM976": (
        "containers of admc in a pod of a guarded service are not as admc writes them",
        "The server relies on the containers `admc-rules`, `admc-proxy` and `admc-wait` only if they are exactly as "
        "`admc inject` writes them, and first in the pod. The API server refuses other ones in a guarded service. "
        "Another webhook has changed them, or the manifest was changed by hand: exclude admc's names in that webhook, "
        "and write the manifest again.",
    ),
    "ADM977": (
        "a container of admc has an image that the installation does not list",
        "The images of admc's containers in a guarded service are of the repositories that the chart has in `image`, "
        "`alsoImages`, `envoyImage` and `alsoEnvoyImages`. After a move to another registry, list the former one in "
        "`alsoImages` or `alsoEnvoyImages` until all pods are replaced. A pod that gets the labels of a guarded "
        "service later gets them when its node has reported which images these containers have run.",
    ),
    "ADM978": (
        "a container of a pod of a guarded service can go round its ADM",
        "It runs as the user of the ADM, mounts the ADM's token, or is an ephemeral container with rights that lead "
        "past the packet filter rules. Debug with a container without these, or in a copy of the pod without the "
        "labels of its service (`kubectl debug POD --copy-to NAME`).",
    ),
    "ADM964": (
        "labels of a pod are changed by its status or its binding",
        "A request to `pods/status` can change the labels of a pod, and so can one to `pods/binding` in newer API "
        "servers. A pod without an ADM could become one of a guarded service in that way. So the chart's policy "
        "`admc-NAME-guard-labels` makes the API server refuse it in the namespaces that take part. Change labels "
        "by the pod itself: the guard then checks the pod.",
        "kubectl label pod loose app=cart --subresource=status",
        "kubectl label pod loose app=cart",
    ),
    "ADM966": (
        "a Service of a guarded service would lead to pods that were not checked",
        "The guard checks a pod when it gets the labels of a guarded service. Pods that have other labels may lack an "
        "ADM, and a Service with another selector leads requests to them. So the chart's policy "
        "`admc-NAME-guard-services` makes the API server refuse a selector that lacks one of the labels by which pods "
        "were checked. It may have more. For blue and green, name the labels that all pods have in the annotation "
        "`admc.dev/pod-labels` of the Service, and restart pods that have no ADM (`Programmed` names them): the change "
        "of colour then passes.",
        "",
        "kubectl annotate service cart admc.dev/pod-labels=app=cart",
    ),
    "ADM979": (
        "the definition of `Injection` is not there or not served",
        "The guard reads in `Injection` objects what pods need. If their definition is deleted, the objects go with "
        "it, and the API server refuses all new pods of the namespaces that take part: it cannot know which of them "
        "are guarded. Apply the definitions again: the active server then writes the objects again. To do without the "
        "guard, set the value `guard` of the chart to `Off`.",
        "",
        "kubectl apply -f deploy/install.yaml",
    ),
}

WEBHOOK: Mapping[str, tuple[str, ...]] = {
    "ADM970": (
        "the webhook cannot use what a namespace needs",
        "The webhook puts ADMs into new pods as the `Injection` of their namespace says. Here that object was written "
        "by a newer admc, or it was altered, so pods that may need an ADM pass without one. During an update the "
        "older replicas answer like this until they are replaced. The active server writes an altered object again; "
        "`kubectl get injection NAME --show-managed-fields -o yaml` shows which client has changed it.",
    ),
    "ADM971": (
        "the webhook is asked about something else than a new pod",
        "The webhook changes pods as they are created, and nothing else. Its MutatingWebhookConfiguration asks it "
        "about other operations or kinds, so another client has changed the rules there. `helm upgrade` or `kubectl "
        "apply -f deploy/install.yaml` restores them.",
    ),
    "ADM972": (
        "the API server does not ask the webhook",
        "The server runs with `--webhook`, and the cluster has no MutatingWebhookConfiguration `admc-NAME` with the "
        "webhook `pods.admc.dev`: it was deleted, or an installation without the chart lacks it. New pods get their "
        "ADMs from their manifests (`admc inject`) or not at all. A new authority is not held up by this.",
        "",
        "helm upgrade admc deploy/chart --namespace admc-system",
    ),
    "ADM973": (
        "the API server may not trust the webhook",
        "The active replica writes the authorities of its certificate into `caBundle` of the "
        "MutatingWebhookConfiguration `admc-NAME`. Here the API server refuses to show or to change it. Until it is "
        "written, the API server cannot verify the certificate of the webhook and creates pods without asking it. The "
        "server tries again by itself. A new authority waits for it, as for a namespace that refuses its ConfigMap.",
    ),
    "ADM974": (
        "the certificate of the webhook is not for its name",
        "The API server reaches the webhook as `admc-NAME-webhook.NAMESPACE.svc`. With `--tls-cert` the certificate "
        "is yours and has other names only, so the API server refuses it and creates pods without asking. Add the "
        "name to the certificate, for example to `dnsNames` of cert-manager's `Certificate`; the server reads the "
        "file again.",
    ),
}

API: Mapping[str, tuple[str, ...]] = {
    "ADM946": (
        "no API server can be reached with this configuration",
        "A command about a cluster needs the Kubernetes client (`pip install 'admc[cluster]'`), and an address, an "
        "authority and credentials: of a kubeconfig file, which `--kubeconfig` or KUBECONFIG names, of the service "
        "account of the pod in which admc runs, or of `~/.kube/config`. The cause says what is missing or wrong.",
    ),
    "ADM952": (
        "another server has taken over",
        "Of several replicas of `admc serve --cluster`, the one that holds the Lease serves. This one held it, could "
        "not renew it in time or was stopped for a while, and another one holds it now or has stored its state. So it "
        "ends with exit code 1, and has published nothing since. Its supervisor starts it again, and it stands by. If "
        "that happens often, the API server answers too slowly, or the process lacks CPU time.",
    ),
}

FACTS: Mapping[str, tuple[str, ...]] = {
    "ADM940": (
        "the addresses of a service are not known in the cluster",
        "A service of the program is the Kubernetes Service of its name in its `namespace` (`mongo_rate` is "
        "`mongo-rate`), or the one that `spec.services` of the Program object names. Here that Service is absent, it "
        "is a name outside of the cluster (`ExternalName`), or it has a pod on the host's network before a plan takes "
        "that into account. Until that changes, ADMs refuse the connections that may be those of the service and that "
        "would pass without their policies.",
    ),
    "ADM941": (
        "the selector of a Service is not what the program says",
        "Without a selector, EndpointSlices say where a service is, and nothing says which pods are its own: no proxy "
        "is identified as its ADM. With another selector than the `labels` of the program, in a cluster the selector "
        "counts: the server's NetworkPolicies select the pods of the service by it. NetworkPolicies that `--emit` "
        "writes select by the labels of the program (`app: NAME` without any), so for `admc inject` it is an error "
        "where the plan closes a destination by them.",
    ),
    "ADM942": (
        "two services have one pod",
        "A pod has one ADM, which enforces the policies of one service; those of the other would be enforced nowhere. "
        "So neither is served until the pods are apart. Two Services over one Deployment are one service with the "
        "ports of both.",
        "service api { http 8080 }\nservice admin { http 9090 }",
        "service api { http web 8080  http admin 9090 }",
    ),
    "ADM943": (
        "the ports of a service are others in the cluster",
        "An ADM takes the connections to the ports that the program names: its `number` at the address of the "
        "Service, its target in the pods. A Service that leads to another target, also in one of its pods where the "
        "target is a name, would lead round the policies.",
        "",
        "service rate { http 80 -> 8080 }",
    ),
    "ADM944": (
        "a namespace takes no part",
        "An installation of admc reads and writes in the namespaces that carry the label `admc.dev/controller` with "
        "its name. A program that names another one is not served; if a namespace loses its label, the last good plan "
        "stays. The namespace of the server, `kube-system`, `kube-public` and `kube-node-lease` take no part, whatever "
        "their labels say: their pods have to start without the server, so neither the webhook nor the guard is for "
        "them. Take the label off there, and run services of the program in another namespace.",
        "",
        "kubectl label namespace shop admc.dev/controller=main",
    ),
    "ADM965": (
        "the selector of a Service has more labels than admc uses",
        "The selector of each service stands in the `Injection` of its namespace, and the API server takes objects of "
        "a limited size. So admc uses a selector of at most 16 labels, whose keys and values have at most 1,000 "
        "characters together. A Service with another one counts as absent: ADMs refuse the connections that may be "
        "those of its service and that would pass without their policies, and new pods of it get no ADM. If the "
        "service is guarded, the selector that it had before stays. Other services and new plans are not concerned. "
        "Give the Service a selector with fewer or shorter labels.",
    ),
    "ADM967": (
        "the annotation `admc.dev/pod-labels` of a Service is not used",
        "A Service that changes from old pods to new ones by a label of its selector (blue and green) names the labels "
        "that all of its pods have: they are then pods of the service before the change, and get an ADM. The value is "
        "a part of the selector, as KEY=VALUE with commas. Here it names a label that the selector does not have, or "
        "has with another value. Until that is corrected, the pods that the selector selects are those of the service.",
        "",
        "kubectl annotate service cart admc.dev/pod-labels=app=cart",
    ),
    "ADM953": (
        "containers with admc's names are not as admc writes them",
        "A server relies on the containers `admc-rules`, `admc-proxy` and `admc-wait` of a pod only if they are as a "
        "release of admc writes them, stand first among the init containers, and run images of the repositories that "
        "`admc serve --cluster` is given (`--image`, `--envoy-image`, `--also-image`, `--also-envoy-image`). Otherwise "
        "the pod counts as one without redirection, and its service as untrusted. The cause names container, field and "
        "value. Amounts of resources, tags of images, and what the identity webhooks of EKS and Azure add make no "
        "difference. A webhook that changes the containers has to leave them out; `admc inject` gives pods the "
        "annotations by which those of EKS and Azure do. Then write the manifest again, and replace the pods.",
        "",
        "admc serve --cluster main --image new.example/admc:2 --also-image old.example/admc",
    ),
    "ADM945": (
        "the facts of the cluster cannot be used",
        "A plan may rest on facts that a cluster shows and the program does not say: which services share the host's "
        "network, can host no ADM, or cannot be trusted. The document with them is an input of the plan "
        "(`cluster-facts.json`). The message says what is wrong with it, or that the plan was made without it.",
        "",
        "admc compile policies.adm --facts cluster-facts.json",
    ),
    "ADM954": (
        "a probe in a pod that its ADM does not answer",
        "`admc inject` points a probe of a port with policies at ingress at the ADM of its pod, and the server reads "
        "it back from the pods. Here the pod has such a probe that admc did not write in this form, its port is no "
        "target of the service, or the pods of the service have more than 32 different ones, of which those of the "
        "oldest pods are answered. The kubelet gets 404 for it, so the pod does not become ready, or restarts. Pass "
        "its manifest through `admc inject` again.",
    ),
}

SERVING: Mapping[str, tuple[str, ...]] = {
    "ADM950": (
        "there is no program",
        "The server runs without one. Before the first program proxies get no configuration, and connect again from "
        "time to time. A program that goes away changes nothing: proxies keep the last plan, and the server gives it "
        "to proxies that start, until there is a program again.",
    ),
    "ADM951": (
        "another server may lead the proxies",
        "One server leads proxies from plan to plan. This one cannot be sure any more that it is the one, so it stores "
        "and publishes nothing new; proxies keep what they have. It goes on by itself once it is sure again.",
    ),
}

CODES: Mapping[str, tuple[str, ...]] = {
    **INJECTION,
    **PROGRAMS,
    **ANNOTATIONS,
    **INJECTIONS,
    **WEBHOOK,
    **GUARD,
    **API,
    **FACTS,
    **SERVING,
    **PODS,
}
