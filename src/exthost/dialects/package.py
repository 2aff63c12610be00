"""The description of an installed dialect: `DialectPackage`.

Each dialect's package has one, and its entry point names it. The host reads the descriptions of all
installed dialects to list extensions, to discover manifests and to read a config, so they must be
cheap to import. Everything costly is a reference, a string "module:attribute", which is imported
lazily. A dialect that needs none of these fields can name its `Dialect` in the entry point instead.

    PACKAGE = DialectPackage(
        name="morphir",
        dialect="exthost.dialects.morphir.dialect:DIALECT",
        first_bytes=JSON_LINES,
    )
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from exthost.dialects.base import Dialect
from exthost.model.empty_mapping import empty_mapping
from exthost.wire.framing import Framing
from exthost.wire.headers import Headers
from exthost.wire.lines import Lines
from exthost.wire.prefixed import Prefixed

Reference: TypeAlias = str
"""The place of a value that is imported lazily: "module:attribute"."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Detection(NamedTuple):
    """How a dialect takes part in the detection for a command without `--dialect`.

    For each dialect in turn, the command is started and a handshake tried, for at most `seconds`.
    Dialects are tried in ascending order of `rank`. A dialect whose manifest format recognises the
    file name of the program is tried before all others.
    """

    rank: int = 100
    seconds: float = 3.0


class FirstBytes(NamedTuple):
    """The first bytes of an extension's output, by which an error can name the right dialect.

    framing    the framing of the output
    starts     the prefixes that match, in lower case
    form       the name of this form in an error, after "it answers in"
    least      the minimum number of bytes for a match
    is_text    whether a byte-order mark, leading white space and letter case are ignored
    """

    framing: Callable[[int], Framing]
    starts: tuple[bytes, ...]
    form: str
    least: int = 1
    is_text: bool = True

    def match(self, first: bytes) -> bool:
        """Return whether output with these first bytes has this form."""
        if self.is_text:
            first = first.removeprefix(_BYTE_ORDER_MARK).lstrip().lower()
        return len(first) >= self.least and first.startswith(self.starts)


# The first bytes of the three framings that come with exthost.
JSON_LINES = FirstBytes(Lines, (b"{",), "lines of JSON")
CONTENT_LENGTH = FirstBytes(Headers, (b"content-length:",), "Content-Length frames")
LENGTH_PREFIXED = FirstBytes(Prefixed, (b"\0",), "length-prefixed frames", least=5, is_text=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectPackage:
    """One installed dialect. A field that is "", empty or None is a part that the dialect does not
    have.

    name             the name of the dialect

    dialect          the `Dialect`, or a reference to it
    manifest         a reference to the `ManifestFormat`
    config_sections  the sections of a config that list extensions of this dialect: name → a
                     reference to a function (value, place, origin, folder) that returns entries
    section_keys     the keys of those sections: name → a reference to a `documents.keys.Key`
    json_sections    the names of sections in other programs' JSON configs that list extensions
    json_config      a reference to the function (document, section) that converts such a section to
                     one of `config_sections`, with notes about what it ignored
    toml_files       path suffixes of other programs' TOML configs that have such sections, too
    host_variables   the environment variables of the host that `Dialect.with_environ` reads
    detection        how the dialect takes part in detection; None if it takes no part
    first_bytes      the first bytes of an extension's output
    errors           the error codes that only this dialect raises: code → kind, title, meaning and
                     fix; or the name of a package whose `errors.toml` has this table
    blocking_facets  the blocking forms of the facets: name → a reference to a subclass of
                     `SyncFacet`. A facet without one gets a blocking form without types
    hostile_peer     a reference to the `HostilePeer`, for the fault tests
    vectors          the name of a package whose folder `vectors` has the test vectors, TOML files
                     for `exthost.testing`
    conformance      a reference to the `Conformance`, for `exthost check`
    """

    name: str
    dialect: Dialect | Reference
    manifest: Reference = ""
    config_sections: Mapping[str, Reference] = field(default_factory=empty_mapping)
    section_keys: Mapping[str, Reference] = field(default_factory=empty_mapping)
    json_sections: tuple[str, ...] = ()
    json_config: Reference = ""
    toml_files: tuple[str, ...] = ()
    host_variables: tuple[str, ...] = ()
    detection: Detection | None = None
    first_bytes: FirstBytes | None = None
    errors: Mapping[str, Mapping[str, str]] | str = ""
    blocking_facets: Mapping[str, Reference] = field(default_factory=empty_mapping)
    hostile_peer: Reference = ""
    vectors: str = ""
    conformance: Reference = ""
