"""`outlier_detection`: endpoints that fail are left out for a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from emitters.envoy.kinds.interface import EnvoyKind
from emitters.envoy.messages.typed import duration

if TYPE_CHECKING:
    from emitters.envoy.messages.typed import Json


class OutlierDetection(EnvoyKind):
    """Ejection by consecutive errors; Envoy's other reasons for an ejection are switched off."""

    consecutive_errors: int
    interval: int
    ejection: int
    max_ejected: float

    needs_endpoints: ClassVar[bool] = True

    def add_to_cluster(self, cluster: Json, limits: Json, *, several: bool) -> None:
        cluster["outlier_detection"] = {
            "consecutive_5xx": self.consecutive_errors,
            "consecutive_gateway_failure": self.consecutive_errors,
            "enforcing_consecutive_gateway_failure": 0,
            "enforcing_success_rate": 0,
            "interval": duration(self.interval),
            "base_ejection_time": duration(self.ejection),
            "max_ejection_time": duration(max(self.ejection, 300_000_000)),
            "max_ejection_percent": int(self.max_ejected),
        }
        if several and self.max_ejected > 0:
            # Otherwise Envoy would eject none if the share is less than one endpoint, such as 10% of three.
            cluster["outlier_detection"]["always_eject_one_host"] = True
        # By default, Envoy delays an ejection by a second if the endpoints have just changed.
        cluster["common_lb_config"] = {"healthy_panic_threshold": {"value": 0.0}, "update_merge_window": "0s"}
