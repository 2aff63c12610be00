"""The description of one dialect (protocol), for the parts of the SDK that work with every dialect:
detection, `exthost new` and the command line of an extension. Each module in `exthost_sdk.dialects`
defines one as DIALECT."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from exthost_sdk.endpoints.endpoint import Endpoint, Identity


class SdkDialect(NamedTuple):
    """One dialect that the SDK speaks.

    endpoint          its endpoint class
    recognises        returns whether a host of this dialect begins with these bytes, or None if it
                      cannot say before it has more bytes. The second argument is the JSON object on
                      the first line; it is None if the line is not one
    templates         the templates of `exthost new` that it supports; the first is the default
    manifest_file     the path of its manifest in the folder of an extension; "" if it has none
    write_manifest    returns the text of the manifest, given the command that starts the extension
    repeats_manifest  whether an extension sends its manifest to the host in the handshake, so that
                      it needs the file when it runs
    provider_test     Python source: the body of the test that `exthost new` writes for an extension
                      of the template "provider"; "" if the dialect does not support that template
    is_tried_last     whether `recognises` accepts also what other dialects begin with
    extra             the extra of exthost-sdk that installs a package it needs; "" for none
    """

    endpoint: type[Endpoint]
    recognises: Callable[[bytes, Mapping[str, Any] | None], bool | None]
    templates: tuple[str, ...] = ()
    manifest_file: str = ""
    write_manifest: Callable[[Identity, Sequence[str]], str] | None = None
    repeats_manifest: bool = False
    provider_test: str = ""
    is_tried_last: bool = False
    extra: str = ""
