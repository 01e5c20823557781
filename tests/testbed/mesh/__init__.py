"""A bed of real parts in network namespaces: redirection as it is emitted, nothing left behind.

    program, placement -> Mesh(...): one namespace for each replica and outside party, one switch, one Envoy for each
    replica of an ADM, echo services that say what reached them

`docs/testbed.md` says what it is made of and what it needs. The reading order: `layout` (who is where), `wiring` and
`translation` (as commands and rules), `agent` (who runs them, inside), `mesh` (how tests use it).
"""

from emitters.interception.tables import Family
from tests.testbed.mesh.control import Arrival
from tests.testbed.mesh.errors import LayoutError, MeshError, MissingError, StartError
from tests.testbed.mesh.mesh import Mesh, Mode, Way
from tests.testbed.mesh.needs import missing
from tests.testbed.mesh.outside import Process, Rule
from tests.testbed.mesh.reaching import Transport
from tests.testbed.mesh.translation import Translation

__all__ = [
    "Arrival",
    "Family",
    "LayoutError",
    "Mesh",
    "MeshError",
    "MissingError",
    "Mode",
    "Process",
    "Rule",
    "StartError",
    "Translation",
    "Transport",
    "Way",
    "missing",
]
