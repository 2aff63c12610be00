"""Finds cigen's plugins on disk: executables named `cigen-provider-*` or `cigen-lang-*`.

Plugins (cigen's name for extensions) have no manifest. Before the handshake only the file name is
known, and it is the extension's id. In the handshake the plugin announces its name, such as
`provider/github`, and its capabilities.
"""

from exthost.dialects.manifest_format import Accepted, ManifestFile, ManifestFormat, Verdict
from exthost.model.spec import Spec


def _read(file: ManifestFile) -> Verdict:
    return Accepted(spec=Spec(id=file.name, argv=(file.path,), dialect="cigen"))


FORMAT = ManifestFormat(
    dialect="cigen",
    names=("cigen-provider-*", "cigen-lang-*"),
    read=_read,
    executable=True,
)
