"""cigen's plugins on disk: executables named `cigen-provider-*` or `cigen-lang-*`, no manifest.

The file name is all that is known before the handshake, and it is the extension's id: the plugin's
own name (`provider/github`) and its capabilities come with the handshake.
"""

from exthost.dialects.manifest_format import Accepted, Found, ManifestFormat, Verdict
from exthost.spec import Spec


def _read(found: Found) -> Verdict:
    return Accepted(spec=Spec(id=found.name, argv=(found.path,), dialect="cigen"))


FORMAT = ManifestFormat(
    dialect="cigen",
    names=("cigen-provider-*", "cigen-lang-*"),
    read=_read,
    executable=True,
)
