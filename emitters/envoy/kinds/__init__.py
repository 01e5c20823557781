"""What each kind of policy becomes in Envoy: one module and one class for each kind of `dsl/prelude.adm`.

    policy -> registry -> EnvoyKind -> HTTP filters, network filters, route, cluster

A module is named after its kind and holds one subclass of `interface.EnvoyKind`. The registry finds it by that name, so
a new kind needs its declaration in the prelude and one module here. `shared` has what several kinds use.
"""
