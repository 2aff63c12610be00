"""What the host reads of a dialect before it talks to anybody: `DialectPackage`.

The package of a dialect has one, and its entry point names it. Listing, discovery and reading a
config need it for every dialect that is installed, so it must be cheap to import. What is costly is
a reference, "module:attribute", which is imported when it is needed. A dialect that has none of
this can name its bare `Dialect` in the entry point instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from exthost.dialects.base import Dialect
from exthost.empty_mapping import empty_mapping
from exthost.wire.framing import Framing
from exthost.wire.headers import Headers
from exthost.wire.lines import Lines
from exthost.wire.prefixed import Prefixed

Reference: TypeAlias = str
"""Where a value is: "module:attribute"."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Detection(NamedTuple):
    """How the dialect of a bare command is found: by a handshake with a process of its own.

    Dialects are tried in the order of `rank`, the lowest first. Each may take `seconds`. A program
    of a name that the dialect's manifest format knows is tried before all others.
    """

    rank: int = 100
    seconds: float = 3.0


class FirstBytes(NamedTuple):
    """What the first bytes of a child look like, to tell a user that another dialect is spoken.

    framing    the framing that reads them
    starts     what they begin with, in lower case
    form       what to call them, after "it answers in"
    least      how many bytes it takes to be sure
    is_text    whether a byte-order mark, white space and capital letters do not count
    """

    framing: Callable[[int], Framing]
    starts: tuple[bytes, ...]
    form: str
    least: int = 1
    is_text: bool = True

    def match(self, first: bytes) -> bool:
        """Return whether these are such bytes."""
        if self.is_text:
            first = first.removeprefix(_BYTE_ORDER_MARK).lstrip().lower()
        return len(first) >= self.least and first.startswith(self.starts)


# Of the three framings that come with exthost.
JSON_LINES = FirstBytes(Lines, (b"{",), "lines of JSON")
CONTENT_LENGTH = FirstBytes(Headers, (b"content-length:",), "Content-Length frames")
LENGTH_PREFIXED = FirstBytes(Prefixed, (b"\0",), "length-prefixed frames", least=5, is_text=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectPackage:
    """One dialect as it is installed.

    dialect          its `Dialect`, or a reference to it
    manifest         a reference to its `ManifestFormat`: its manifests on disk
    config_sections  sections of a config that describe its extensions: name → a reference to a
                     function (value, place, origin, folder) that returns entries
    section_keys     the keys of those sections: name → a reference to a `documents.keys.Key`
    json_sections    members of other programs' JSON configs that describe its extensions; see
    json_config      a reference to the function (document, section) that reads them
    toml_files       how the paths of other programs' TOML configs end that it reads as well
    detection        how it is found for a bare command; None: not by trying
    first_bytes      what its children's first bytes look like
    errors           the error codes of its own: code → kind, title, meaning and fix, or the name of
                     a package whose `errors.toml` has this table
    blocking_facets  the blocking forms of its facets: the facet's name → a reference to a subclass
                     of `SyncFacet`; a facet without one gets an untyped view
    hostile_peer     a reference to its `HostilePeer`, for the fault tests
    vectors          the name of a package whose folder `vectors` has TOML files of vectors, for
                     `exthost.testing.vectors`
    conformance      a reference to its `Conformance`, for `exthost check`
    """

    name: str
    dialect: Dialect | Reference
    manifest: Reference = ""
    config_sections: Mapping[str, Reference] = field(default_factory=empty_mapping)
    section_keys: Mapping[str, Reference] = field(default_factory=empty_mapping)
    json_sections: tuple[str, ...] = ()
    json_config: Reference = ""
    toml_files: tuple[str, ...] = ()
    detection: Detection | None = None
    first_bytes: FirstBytes | None = None
    errors: Mapping[str, Mapping[str, str]] | str = ""
    blocking_facets: Mapping[str, Reference] = field(default_factory=empty_mapping)
    hostile_peer: Reference = ""
    vectors: str = ""
    conformance: Reference = ""
