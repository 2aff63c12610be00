"""Tools for testing a dialect: test vectors, the hostile extension, and a pipe with faults.

`exthost.authoring.testing.vectors` describes the format of a vector.
"""

from exthost.authoring.testing.fault_proxy import FAULTS
from exthost.authoring.testing.peers import PEERS, HostilePeer
from exthost.authoring.testing.vectors import (
    Vector,
    check_vector,
    check_with_process,
    load_vectors,
    package_vectors,
    run_vectors,
)

__all__ = [
    "FAULTS",
    "PEERS",
    "HostilePeer",
    "Vector",
    "check_vector",
    "check_with_process",
    "load_vectors",
    "package_vectors",
    "run_vectors",
]
