"""Mistakes that are put into the model, in precedence, defaults, order and scope: a test of a rule notices each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest

from admc.istio.in_force import (
    authorization,
    delegates,
    destination_rules,
    exports,
    hosts,
    identity,
    judge,
    not_judged,
    peer_authentication,
    registry,
    sidecar_scope,
    telemetry,
    view,
    virtual_services,
)
from admc.istio.in_force.virtual_services import Target
from tests.istio.in_force import test_destination_rules as rules
from tests.istio.in_force import test_policies as policies
from tests.istio.in_force import test_scope as scopes
from tests.istio.in_force import test_virtual_services as routes

Patch = tuple[object, str, Any]


class Mutant(NamedTuple):
    change: Callable[[], Patch]
    noticed_by: Callable[[], None]


def the_namespace_of_the_host_goes_before_that_of_the_client() -> Patch:
    original = destination_rules.Rules.all_for

    def all_for(self: Any, namespace: str, host: Any) -> Any:
        return self._seen(host.namespace, host, namespace) or original(self, namespace, host)

    return destination_rules.Rules, "all_for", all_for


def the_root_namespace_goes_before_that_of_the_host() -> Patch:
    original = destination_rules.Rules._seen

    def seen(self: Any, owner: str, host: Any, namespace: str) -> Any:
        return original(self, self._root, host, namespace) or original(self, owner, host, namespace)

    return destination_rules.Rules, "_seen", seen


def a_wildcard_matches_no_host() -> Patch:
    return hosts.ByHost, "most_specific", lambda self, host: self._named.get(host)


def the_shortest_wildcard_wins() -> Patch:
    def most_specific(self: Any, host: str) -> Any:
        around = [name for name in self._named if hosts.overlaps(name, host)]
        return self._named[min(around, key=len)] if around else None

    return hosts.ByHost, "most_specific", most_specific


def the_youngest_traffic_policy_counts() -> Patch:
    original = destination_rules._add_to

    def add_to(rule: Any, manifest: Any) -> None:
        rule.policy = None if manifest.data["spec"].get("trafficPolicy") else rule.policy
        original(rule, manifest)

    return destination_rules, "_add_to", add_to


def settings_of_a_port_are_merged_with_those_of_the_host() -> Patch:
    original = destination_rules._at_port

    def at_port(policy: Any, port: int) -> Any:
        own, has_port = original(policy, port)
        return {**original(policy, -1)[0], **own}, has_port

    return destination_rules, "_at_port", at_port


def each_subset_has_a_route() -> Patch:
    original = virtual_services.Routing.targets

    def targets(self: Any, scope: Any) -> Any:
        return original(self, scope) | {Target(name, "v1", 80) for name in scope.hosts}

    return virtual_services.Routing, "targets", targets


def a_rule_for_some_workloads_holds_for_all() -> Patch:
    return destination_rules, "has_labels", lambda workload, labels: True


def a_server_has_no_pools() -> Patch:
    return destination_rules, "inbound_effects", lambda *_: iter(())


def mutual_tls_never_does_anything() -> Patch:
    return judge.Automatic, "begins", lambda self, host, port: True


def public_routes_go_before_private_ones() -> Patch:
    original = sidecar_scope._virtual_services
    return sidecar_scope, "_virtual_services", lambda *args: tuple(reversed(original(*args)))


def the_younger_resource_counts() -> Patch:
    original = view.View.of_kind
    return view.View, "of_kind", lambda self, group, kind: tuple(reversed(original(self, group, kind)))


def age_is_not_looked_at() -> Patch:
    return view, "age", lambda manifest: ("", manifest.name, manifest.namespace)


def routes_count_after_one_that_takes_all() -> Patch:
    return virtual_services, "_takes_all", lambda match: False


def headers_are_forgotten() -> Patch:
    original = virtual_services._takes_all
    return virtual_services, "_takes_all", lambda match: original({**match, "headers": None})


def a_plain_route_does_something() -> Patch:
    return virtual_services, "_is_plain", lambda *_: False


def a_route_is_plain_to_any_host() -> Patch:
    original = virtual_services._is_plain

    def is_plain(route: Any, host: str, port: int) -> bool:
        destinations = route.data.get("route") or [{"destination": {"host": host}}]
        return original(route, destinations[0]["destination"]["host"], port)

    return virtual_services, "_is_plain", is_plain


def labels_of_the_client_are_not_compared() -> Patch:
    return virtual_services, "has_labels", lambda workload, labels: True


def exports_are_not_looked_at() -> Patch:
    return exports, "exported_to", lambda *_: frozenset("*")


def the_default_of_exports_is_not_looked_at() -> Patch:
    original = exports.exported_to
    return exports, "exported_to", lambda names, namespace, otherwise: original(names, namespace, ("*",))


def routes_of_gateways_hold_at_sidecars() -> Patch:
    return sidecar_scope, "is_for_sidecars", lambda manifest: bool(manifest.data["spec"].get("hosts"))


def a_delegate_is_always_visible() -> Patch:
    return delegates, "is_seen", lambda *_: True


def resources_of_all_revisions_are_read() -> Patch:
    return view.View, "reads", lambda self, manifest: True


def a_wildcard_goes_before_an_exact_host() -> Patch:
    original = sidecar_scope._hosts_named

    def hosts_named(resource: Any, names: Any, known: Any, best: Any) -> Any:
        return original(resource, names, known, dict.fromkeys(known, resource))

    return sidecar_scope, "_hosts_named", hosts_named


def ports_have_no_mode_of_their_own() -> Patch:
    return peer_authentication.Modes, "at_port", lambda self, port: self.all


def the_mesh_goes_before_the_namespace() -> Patch:
    original = peer_authentication.for_namespace

    def for_namespace(own: Any, namespace: str) -> Any:
        return original(own, own.configuration.root) or original(own, namespace)

    return peer_authentication, "for_namespace", for_namespace


def a_selector_in_the_root_namespace_selects() -> Patch:
    def for_workload(own: Any, workload: Any) -> Any:
        for manifest in own.of_kind("security.istio.io", "PeerAuthentication"):
            labels = peer_authentication.selector(manifest, ("selector", "matchLabels"))
            if labels and peer_authentication.has_labels(workload, labels):
                return manifest
        return None

    return peer_authentication, "for_workload", for_workload


def an_unset_mode_is_permissive() -> Patch:
    original = peer_authentication._at_level

    def at_level(manifest: Any, where: Any, above: Any) -> Any:
        level = original(manifest, where, above)
        return peer_authentication.Level(peer_authentication.Mode.PERMISSIVE, None) if level is above else level

    return peer_authentication, "_at_level", at_level


def policies_of_the_root_namespace_hold_there_alone() -> Patch:
    original = authorization.attached
    return authorization, "attached", lambda manifest, workload, root: original(manifest, workload, "")


def an_allow_without_rules_matches_nothing() -> Patch:
    return authorization, "never_matches", lambda manifest: not authorization.rules(manifest)


def a_deny_without_rules_refuses_all() -> Patch:
    return authorization, "never_matches", lambda manifest: False


def an_allow_of_everything_voids_nothing() -> Patch:
    return authorization, "admits_all", lambda manifest: False


def a_deny_loses_its_rule_too() -> Patch:
    return authorization, "action", lambda manifest: "ALLOW"


def each_policy_is_of_layer_4() -> Patch:
    return authorization, "layer", lambda manifest: authorization.Layer.CONNECTION


def policies_of_waypoints_hold_at_sidecars() -> Patch:
    from admc.istio.in_force import selection

    return selection, "targets", lambda manifest: False


def a_strict_server_asks_for_no_identity() -> Patch:
    return identity, "_strict", lambda *_: iter(())


def a_negative_names_no_caller() -> Patch:
    original = identity.asked

    def asked(manifest: Any, callers: Any) -> Any:
        conditions = [it for rule in authorization.rules(manifest) for it in authorization.conditions(rule)]
        is_negative = any(it.is_negative for it in conditions)
        return identity.Asked(None, {}, {}) if is_negative else original(manifest, callers)

    return identity, "asked", asked


def the_namespace_goes_before_the_selector_of_a_sidecar() -> Patch:
    return sidecar_scope, "_has_selector", lambda manifest: False


def a_sidecar_of_the_root_is_not_looked_at() -> Patch:
    original = sidecar_scope.Scopes.sidecar

    def sidecar(self: Any, workload: Any) -> Any:
        chosen = original(self, workload)
        return chosen if chosen is None or chosen.namespace == workload.namespace else None

    return sidecar_scope.Scopes, "sidecar", sidecar


def excluded_hosts_are_imported() -> Patch:
    original = sidecar_scope.imports_of
    return sidecar_scope, "imports_of", lambda names, namespace: original(names, namespace)._replace(excluded={})


def telemetry_of_the_root_is_replaced() -> Patch:
    original = telemetry.applied

    def applied(own: Any, workload: Any) -> Iterator[Any]:
        listed = [it for it in original(own, workload) if it.namespace != own.configuration.root]
        return iter(listed or original(own, workload))

    return telemetry, "applied", applied


def a_filter_of_gateways_keeps_sidecars() -> Patch:
    return not_judged, "is_for_gateways", lambda manifest: False


def each_port_is_http() -> Patch:
    return registry, "protocol_of", lambda *_: registry.Protocol.HTTP


def the_account_of_a_machine_is_not_looked_at() -> Patch:
    return registry, "_is_mutual", lambda endpoint: "istio" in (endpoint.get("labels") or {}).values()


MUTANTS: Final = (
    Mutant(
        the_namespace_of_the_host_goes_before_that_of_the_client,
        rules.test_the_clients_namespace_goes_before_that_of_the_host_and_that_before_the_root,
    ),
    Mutant(
        the_root_namespace_goes_before_that_of_the_host,
        rules.test_the_clients_namespace_goes_before_that_of_the_host_and_that_before_the_root,
    ),
    Mutant(a_wildcard_matches_no_host, rules.test_a_wildcard_of_the_client_goes_before_the_exact_rule_of_the_host),
    Mutant(the_shortest_wildcard_wins, rules.test_within_one_namespace_the_most_specific_host_wins_alone),
    Mutant(
        the_youngest_traffic_policy_counts, rules.test_rules_of_one_host_are_merged_the_oldest_traffic_policy_counts
    ),
    Mutant(
        settings_of_a_port_are_merged_with_those_of_the_host,
        lambda: rules.test_settings_of_a_port_replace_those_of_the_host_as_a_whole(80, {"outlier detection"}),
    ),
    Mutant(each_subset_has_a_route, rules.test_a_subset_that_no_route_uses_does_nothing),
    Mutant(
        a_rule_for_some_workloads_holds_for_all,
        rules.test_a_rule_for_some_workloads_holds_in_its_own_namespace_for_them,
    ),
    Mutant(a_server_has_no_pools, rules.test_a_server_has_the_pools_of_its_clients_too),
    Mutant(mutual_tls_never_does_anything, rules.test_mutual_tls_does_something_where_sidecars_would_not_begin_it),
    Mutant(
        the_account_of_a_machine_is_not_looked_at,
        lambda: rules.test_a_machine_has_a_proxy_by_its_label_or_else_by_its_account(
            {"labels": {"app": "pay"}, "serviceAccount": "pay"}, set()
        ),
    ),
    Mutant(
        public_routes_go_before_private_ones,
        routes.test_private_goes_before_named_and_named_before_public_whatever_their_age,
    ),
    Mutant(the_younger_resource_counts, routes.test_of_two_with_the_same_scope_the_older_one_counts_alone),
    Mutant(age_is_not_looked_at, routes.test_of_two_with_the_same_scope_the_older_one_counts_alone),
    Mutant(routes_count_after_one_that_takes_all, routes.test_a_plain_route_of_a_host_to_itself_does_nothing),
    Mutant(headers_are_forgotten, routes.test_a_match_with_a_header_takes_not_all_requests),
    Mutant(a_plain_route_does_something, routes.test_a_plain_route_of_a_host_to_itself_does_nothing),
    Mutant(
        a_route_is_plain_to_any_host,
        lambda: routes.test_routes_that_do_something([{"route": [routes.to("cart.shop.svc.cluster.local")]}]),
    ),
    Mutant(
        labels_of_the_client_are_not_compared,
        lambda: routes.test_matches_that_are_decided_at_the_sidecar({"sourceLabels": {"app": "other"}}, False),
    ),
    Mutant(exports_are_not_looked_at, routes.test_export_hides),
    Mutant(the_default_of_exports_is_not_looked_at, routes.test_export_hides),
    Mutant(routes_of_gateways_hold_at_sidecars, routes.test_a_route_for_sidecars_holds_at_each_that_sees_it),
    Mutant(a_delegate_is_always_visible, routes.test_delegates),
    Mutant(resources_of_all_revisions_are_read, routes.test_a_resource_for_another_revision_is_not_read),
    Mutant(
        a_wildcard_goes_before_an_exact_host,
        routes.test_an_exact_host_goes_before_a_wildcard_and_a_long_wildcard_before_a_short_one,
    ),
    Mutant(each_port_is_http, routes.test_http_routes_hold_at_ports_with_http_or_a_protocol_that_is_detected),
    Mutant(ports_have_no_mode_of_their_own, policies.test_a_port_that_requires_no_mtls_needs_no_identity),
    Mutant(
        the_mesh_goes_before_the_namespace,
        policies.test_a_port_goes_before_its_workload_that_before_the_namespace_and_that_before_the_mesh,
    ),
    Mutant(
        a_selector_in_the_root_namespace_selects,
        policies.test_one_with_a_selector_in_the_root_namespace_is_in_force_nowhere,
    ),
    Mutant(an_unset_mode_is_permissive, policies.test_a_mode_that_is_not_set_is_that_of_the_level_above),
    Mutant(policies_of_the_root_namespace_hold_there_alone, policies.test_a_policy_of_the_root_namespace_holds_in_all),
    Mutant(
        an_allow_without_rules_matches_nothing,
        policies.test_an_allow_without_rules_refuses_all_and_other_actions_without_rules_nothing,
    ),
    Mutant(
        a_deny_without_rules_refuses_all,
        policies.test_an_allow_without_rules_refuses_all_and_other_actions_without_rules_nothing,
    ),
    Mutant(an_allow_of_everything_voids_nothing, policies.test_an_allow_of_everything_voids_each_allow_beside_it),
    Mutant(a_deny_loses_its_rule_too, lambda: policies.test_http_fields_at_a_port_without_http("DENY", "tcp", False)),
    Mutant(
        each_policy_is_of_layer_4,
        lambda: policies.test_what_a_proxy_has_to_read({"to": [{"operation": {"methods": ["GET"]}}]}, 7),
    ),
    Mutant(policies_of_waypoints_hold_at_sidecars, policies.test_a_policy_of_a_waypoint_holds_at_no_sidecar),
    Mutant(a_strict_server_asks_for_no_identity, policies.test_callers_are_those_that_call),
    Mutant(
        a_negative_names_no_caller,
        lambda: policies.test_callers_whose_identity_is_asked_for(policies.source(notPrincipals=["x"]), {"a", "b"}),
    ),
    Mutant(
        the_namespace_goes_before_the_selector_of_a_sidecar,
        scopes.test_a_selector_goes_before_the_namespace_and_that_before_the_root,
    ),
    Mutant(
        a_sidecar_of_the_root_is_not_looked_at,
        scopes.test_a_selector_goes_before_the_namespace_and_that_before_the_root,
    ),
    Mutant(
        excluded_hosts_are_imported,
        lambda: scopes.test_hosts_that_a_sidecar_imports(["*/*", "~bank/*"], scopes.OPS),
    ),
    Mutant(
        telemetry_of_the_root_is_replaced,
        policies.test_telemetry_of_the_root_of_the_namespace_and_of_the_workload_add_up,
    ),
    Mutant(a_filter_of_gateways_keeps_sidecars, policies.test_what_is_not_judged_keeps_the_sidecars_that_it_concerns),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda it: it.change.__name__)
def test_the_mistake_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.noticed_by()
    monkeypatch.setattr(*mutant.change())
    with pytest.raises(AssertionError):
        mutant.noticed_by()


def test_each_mistake_of_this_file_is_tried() -> None:
    listed = {it.change.__name__ for it in MUTANTS}
    assert len(listed) == len(MUTANTS) >= 20
    declared = {name for name, value in globals().items() if callable(value) and _gives_a_patch(value)}
    assert listed == declared


def _gives_a_patch(value: Any) -> bool:
    return getattr(value, "__annotations__", {}).get("return") == "Patch"
