"""Remembers which new extensions a person has agreed to (`[trust] new = "ask"`).

The answers are in the host's state folder, by the config and the id of the extension, with a digest
of its manifest: a package with another manifest is new again. An answer that cannot be read counts
as none.
"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from exthost.config import Config
from exthost.model.spec import Spec
from exthost.process.own_process import host_environ
from exthost.process.private_folders import make_folder
from exthost.process.small_files import read_start
from exthost.process.state_root import state_root

# More than the answers about thousands of extensions.
_MAX_BYTES = 1024 * 1024

# How much of a manifest is read.
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024


def has_agreed(config: Config, spec: Spec) -> bool:
    """Return whether a person has agreed to start this extension."""
    digest = extension_digest(spec)
    return bool(digest) and _read_answers(_answers_file(config)).get(spec.id) == digest


def remember_agreement(config: Config, spec: Spec, digest: str) -> None:
    """Remember that a person has agreed to start this extension, which had this digest when it was
    shown (`extension_digest`). Raises OSError."""
    path = _answers_file(config)
    answers = {**_read_answers(path), spec.id: digest}
    make_folder(path.parent)
    temp_path = path.with_suffix(f".{os.getpid()}")
    temp_path.write_text(json.dumps(answers, sort_keys=True))
    temp_path.replace(path)


def _answers_file(config: Config) -> Path:
    """Return the file with the answers about the extensions of a config."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(config.origin))).hexdigest()[:32]
    return Path(state_root(host_environ()), "trust", f"{name}.json")


def _read_answers(path: Path) -> dict[str, Any]:
    """Return the digest of each extension that a person has agreed to, by its id."""
    with suppress(OSError, ValueError, RecursionError):
        answers = json.loads(read_start(str(path), _MAX_BYTES))
        if isinstance(answers, dict):
            return answers
    return {}


def extension_digest(spec: Spec) -> str:
    """Return a digest of the place and the manifest of an extension, or of the program that it
    consists of; "" if it cannot be read."""
    path = os.path.realpath(spec.manifest_file or spec.origin)
    try:
        text = read_start(path, _MAX_MANIFEST_BYTES)
    except OSError:
        return ""
    return hashlib.sha256(os.fsencode(path) + b"\0" + text).hexdigest()
