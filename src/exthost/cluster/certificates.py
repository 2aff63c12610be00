"""Makes the certificates of a cluster, with the program `openssl`, for `exthost cluster init`.

With them, the host and its agents (the programs that run its processes on other machines, the
nodes) encrypt their connections (`tls`). The files are in one folder:

ca.pem, ca.key       the authority, which signs the others; the key is needed only to renew them
host.pem, host.key   for the host
node.pem, node.key   for the nodes, which need ca.pem, too
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from exthost.cluster.tls import HOST_NAME, NODE_NAME
from exthost.errors import ConfigError
from exthost.process.private_folders import make_folder

# The authority is valid for ten years. The certificates that it signs are valid for a year and a
# month, so that they can be renewed every year.
_AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 397

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")

# The files of an unfinished renewal, one of which is a key.
_LEFTOVERS = ("request.new", "extensions.new", "key.new", "certificate.new", "ca.srl")

# How long one run of openssl may take.
_OPENSSL_SECONDS = 60.0

# Role → the name in its certificate, and the purpose for which the certificate is valid.
_ROLES = {"host": (HOST_NAME, "serverAuth"), "node": (NODE_NAME, "clientAuth")}


def make_certificates(folder: Path) -> None:
    """Make an authority and the two certificates in a folder, which is created. Raises ConfigError
    if there is an authority already, if the folder cannot be written, or if openssl fails."""
    if os.path.lexists(folder / "ca.pem"):  # a path may be too long for Path.exists
        raise ConfigError(
            "X1978",
            f"{folder} has certificates already",
            help="`exthost cluster init --renew` renews those of host and nodes; or name another "
            "folder",
        )
    try:
        make_folder(folder)
    except OSError as error:
        raise _unwritable_error(folder, error) from None
    _openssl(
        folder,
        *("req", "-x509", *_NEW_KEY, "-days", str(_AUTHORITY_DAYS), "-subj", "/CN=exthost cluster"),
        *(
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign",
        ),
        *("-keyout", "ca.key", "-out", "ca.pem"),
    )
    renew_certificates(folder)


def renew_certificates(folder: Path) -> None:
    """Make the two certificates again, signed by the authority in the folder. Each file is replaced
    in one step, the key first. Raises ConfigError."""
    if not os.path.lexists(folder / "ca.key"):
        raise ConfigError(
            "X1979",
            f"{folder} has no ca.key, which signs certificates",
            help="run this where the certificates were made, or make new ones in another folder",
        )
    try:
        _renew(folder)
    except OSError as error:
        raise _unwritable_error(folder, error) from None
    finally:
        for leftover in _LEFTOVERS:
            with suppress(OSError):
                (folder / leftover).unlink()


def _renew(folder: Path) -> None:
    """Make the two certificates again. Raises ConfigError and OSError."""
    for role, (name, usage) in _ROLES.items():
        # Each step writes a file whose name ends with ".new". The finished files replace the old
        # ones at the end.
        extensions = folder / "extensions.new"
        extensions.write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage={usage}\n")
        _openssl(
            folder,
            *("req", "-new", *_NEW_KEY, "-subj", f"/CN={name}"),
            *("-keyout", "key.new", "-out", "request.new"),
        )
        _openssl(
            folder,
            *("x509", "-req", "-in", "request.new", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", str(CERTIFICATE_DAYS), "-extfile", "extensions.new"),
            *("-out", "certificate.new"),
        )
        (folder / "key.new").chmod(0o600)
        (folder / "key.new").replace(folder / f"{role}.key")
        (folder / "certificate.new").replace(folder / f"{role}.pem")


def _unwritable_error(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        "X1980",
        f"{folder} cannot be written: {error.strerror}",
        help="name a folder that can be created, or that this user can write",
    )


def _openssl(folder: Path, *arguments: str) -> None:
    """Run openssl in a folder. Raises ConfigError if it fails."""
    try:
        subprocess.run(
            ["openssl", *arguments],
            cwd=folder,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_OPENSSL_SECONDS,
            text=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        raise ConfigError(
            "X1980",
            f"openssl could not make a certificate: {output.strip()[-500:]}",
            help="install openssl 3, and check that the folder can be written",
        ) from None
