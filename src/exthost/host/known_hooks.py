"""Remembers which hooks each extension had, so that a guard (an extension that judges tool calls)
which is refused still refuses calls.

An extension whose manifest has an error, or that is refused before its handshake, cannot say which
calls its hooks would judge. Its last known form says so: the hooks of the last manifest that was
accepted, with their filters, and those that its last handshake announced. The forms are kept in the
store of the host, and so outlive it.

A rejected manifest becomes an extension that is refused (`make_refused_guards`) if it declares a
hook that may stop a call. If its hooks cannot be read, its last known form decides; if there is
none, it may be a guard, and counts as one. An extension that the operator has disabled or removed
is not among the rejected manifests, and guards nothing.

If the store cannot be used, a warning is logged, and nothing is known.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from exthost.errors import ConfigError, ManifestError
from exthost.host.api.store import Missing, Store
from exthost.host.hook_policy import may_block
from exthost.model.spec import Pins, Refusal
from exthost.process.state_root import state_root

if TYPE_CHECKING:
    import sqlite3

    from exthost.config import Config
    from exthost.config.discovery.report import RejectedManifest
    from exthost.model.offer import Offer
    from exthost.model.spec import Spec

_log = logging.getLogger("exthost.hooks")

_TABLE = """CREATE TABLE IF NOT EXISTS hooks (
    key TEXT PRIMARY KEY, form TEXT NOT NULL) WITHOUT ROWID"""


class KnownForm(NamedTuple):
    """The last known form of an extension.

    id         its id
    hooks      the hooks that its manifest declares
    announced  the hooks that its last handshake announced, in a dialect whose handshakes do
    manifest   the text of the manifest, if a hook in it may stop a call; it has the filters
    """

    id: str
    hooks: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    manifest: str = ""


class KnownHooks:
    """The last known forms of the extensions of one host."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._forms: dict[str, KnownForm] = {}  # those that were read or written, by their keys

    async def recall(
        self, specs: Sequence[Spec], rejected: Iterable[RejectedManifest], config: Config
    ) -> tuple[list[Spec], list[Spec]]:
        """Return these extensions, with the hooks that they announced before (`known_hooks`), and
        the guards among the rejected manifests, as extensions that are refused. Record the form of
        the former."""
        with_hooks = [spec for spec in specs if spec.enabled and _may_have_hooks(spec)]
        rejected = [manifest for manifest in rejected if manifest.hooks is not None]
        if not with_hooks and not rejected:
            return list(specs), []
        keys = [_key(spec) for spec in with_hooks]
        keys += [_rejected_key(manifest) for manifest in rejected]
        self._forms |= await self._read(keys)
        guards = self._make_refused_guards(rejected, {spec.id for spec in specs}, config)
        await self.record(with_hooks)
        forms = self._forms
        return [
            replace(spec, known_hooks=forms[key].announced)
            if (key := _key(spec)) in forms and forms[key].announced
            else spec
            for spec in specs
        ], guards

    async def record(self, specs: Sequence[Spec]) -> None:
        """Record the manifests of these extensions, which were accepted."""
        specs = [spec for spec in specs if spec.manifest is not None and _may_have_hooks(spec)]
        if specs:
            self._write(await asyncio.to_thread(self._find_changes, specs))

    def _find_changes(self, specs: Iterable[Spec]) -> dict[str, KnownForm]:
        """Return the forms that differ from the known ones. Blocks: manifests are read again."""
        changes: dict[str, KnownForm] = {}
        for spec in specs:
            key = _key(spec)
            known = self._forms.get(key)
            form = KnownForm(
                spec.id,
                spec.declared_hooks,
                known.announced if known is not None else (),
                _read_text(spec.manifest_file) if _is_guard(spec) else "",
            )
            if form != known:
                changes[key] = form
        return changes

    def record_offer(self, spec: Spec, offer: Offer) -> None:
        """Record the hooks that a handshake announced."""
        key = _key(spec)
        known = self._forms.get(key) or KnownForm(spec.id)
        if known.announced != offer.hooks:
            self._write({key: known._replace(announced=offer.hooks)})

    # -- the store -----------------------------------------------------------------------------

    async def _read(self, keys: Sequence[str]) -> dict[str, KnownForm]:
        try:
            return await asyncio.wrap_future(
                self._store.read(lambda connection: _read_forms(connection, keys))
            )
        except Missing:
            return {}
        except ConfigError as error:
            _log.warning("which hooks extensions had before is not known: %s", error.message)
            return {}

    def _write(self, forms: Mapping[str, KnownForm]) -> None:
        if not forms:
            return
        self._forms.update(forms)
        import json

        rows = [(key, json.dumps(form._asdict())) for key, form in forms.items()]

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_TABLE)
            connection.executemany("INSERT OR REPLACE INTO hooks VALUES (?, ?)", rows)

        self._store.write(write).add_done_callback(_log_failure)

    # -- refused guards ------------------------------------------------------------------------

    def _make_refused_guards(
        self, rejected: Sequence[RejectedManifest], taken_ids: set[str], config: Config
    ) -> list[Spec]:
        guards = []
        disabled, allowlist = _filters(config)
        for manifest in rejected:
            hooks = self._hooks_of(manifest, config)
            if hooks is None or hooks.id in disabled:
                continue
            if allowlist and not manifest.has_id:
                # Its id is not in the manifest. If it is not known, either, it may be any id of the
                # allowlist that no extension has.
                is_known = _rejected_key(manifest) in self._forms
                if hooks.id not in allowlist if is_known else taken_ids.issuperset(allowlist):
                    continue
            id, number = hooks.id, 2
            while id in taken_ids:  # another package has its id
                id, number = f"{hooks.id}-{number}", number + 1
            taken_ids.add(id)
            refusal = _refusal(manifest)
            spec = config.apply_overrides(replace(hooks, id=id))
            guards.append(replace(spec, refusal=refusal, config_file=config.origin))
        return guards

    def _hooks_of(self, rejected: RejectedManifest, config: Config) -> Spec | None:
        """Return an extension with the hooks of a rejected manifest, or None if no hook of it may
        stop a call. If the config pins the manifest, its hooks are not believed."""
        hooks = rejected.hooks
        assert hooks is not None
        known = self._forms.get(_rejected_key(rejected))
        if known is not None:
            if hooks.has_unknown_hooks or not _is_guard(hooks):
                hooks = _parse_again(known, rejected, hooks)
            hooks = replace(hooks, known_hooks=known.announced)
        pins = config.apply_overrides(hooks).sha256
        if isinstance(pins, Pins) and (pins.manifest or pins.package):
            hooks = replace(hooks, has_unknown_hooks=True)
        return hooks if _is_guard(hooks) else None


def _filters(config: Config) -> tuple[Collection[str], Collection[str]]:
    """Return the ids of discovered extensions that are disabled, and those of the allowlist."""
    discovery = config.discovery
    return (discovery.disabled, discovery.allowlist) if discovery is not None else ((), ())


def read_known_ids(paths: Iterable[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Return the last known ids of the extensions with these manifests, for callers without an
    event loop. If the store cannot be read, none is known."""
    store = Store(state_root(environ))
    try:
        keys = [os.path.realpath(path) for path in paths]
        forms = store.read(lambda connection: _read_forms(connection, keys)).result()
    except (Missing, ConfigError):
        return frozenset()
    finally:
        store.close()
    return frozenset(form.id for form in forms.values())


def _read_forms(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, KnownForm]:
    query = "SELECT form FROM hooks WHERE key = ?"
    import sqlite3

    try:
        rows = {key: connection.execute(query, (key,)).fetchone() for key in keys}
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return {}
        raise
    return {key: _decode(row[0]) for key, row in rows.items() if row is not None}


def _may_have_hooks(spec: Spec) -> bool:
    from exthost.dialects import find

    return "hook" in find.find_dialect(spec.dialect).operations


def _is_guard(spec: Spec) -> bool:
    """Return whether a hook of this extension may stop a call."""
    hooks = (*spec.declared_hooks, *spec.known_hooks)
    return spec.has_unknown_hooks or any(may_block(spec, hook) for hook in hooks)


def _key(spec: Spec) -> str:
    """Return the key of an extension in the store: the path of its manifest. Without one, its
    config and its id; without a config file, its command and its id."""
    if spec.manifest_file:
        return os.path.realpath(spec.manifest_file)
    import shlex

    return f"{spec.config_file or shlex.join(spec.argv)}#{spec.id}"


def _rejected_key(manifest: RejectedManifest) -> str:
    return os.path.realpath(manifest.path)


def _read_text(path: str) -> str:
    from exthost.config.discovery.untrusted_files import read_file

    try:
        return (read_file(os.path.realpath(path)) or b"").decode(errors="surrogateescape")
    except ManifestError:
        return ""


def _parse_again(known: KnownForm, rejected: RejectedManifest, hooks: Spec) -> Spec:
    """Return `hooks`, what can be read of a rejected manifest, with the hooks of its last known
    form in place of its own."""
    former = replace(hooks, id=known.id, has_unknown_hooks=False, declared_hooks=known.hooks)
    from exthost.config.discovery.search import read_rejected_hooks
    from exthost.dialects import find
    from exthost.dialects.manifest_format import Accepted, ManifestFile

    format = find.find_manifest_format(rejected.dialect)
    if not known.manifest or format is None:
        return former
    data = known.manifest.encode(errors="surrogateescape")
    file = ManifestFile(path=rejected.path, folder=rejected.folder, data=data)
    try:
        verdict = format.read(file)
    except ManifestError:
        verdict = None
    parsed = verdict.spec if isinstance(verdict, Accepted) else read_rejected_hooks(format, file)
    if parsed is None:
        return former
    return replace(
        former,
        declared_hooks=parsed.declared_hooks,
        advisory_hooks=parsed.advisory_hooks,
        manifest=parsed.manifest,
        has_unknown_hooks=parsed.has_unknown_hooks,
    )


def _refusal(manifest: RejectedManifest) -> Refusal:
    diagnostic = manifest.diagnostic
    return Refusal(
        "X0352",
        f"its manifest is refused: {diagnostic.message} [{diagnostic.code}]",
        f"correct {manifest.path}{f': {diagnostic.help}' if diagnostic.help else ''}",
    )


def _decode(text: str) -> KnownForm:
    import json

    fields = json.loads(text)
    return KnownForm(
        fields["id"], tuple(fields["hooks"]), tuple(fields["announced"]), fields["manifest"]
    )


def _log_failure(future: Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _log.warning("the hooks of extensions are not remembered: %s", error)
