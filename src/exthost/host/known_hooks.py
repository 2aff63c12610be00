"""Remembers which hooks each extension had.

A hook is a function of an extension that the host calls at an event, such as `before_tool_call`. A
guard is an extension with a hook that can stop tool calls. If a guard cannot be loaded, the calls
that it would judge must be refused. But an extension whose manifest has an error, or that is
refused before its handshake, does not show which calls these are. So the host keeps its *last known
form*: the hooks in the last manifest that was accepted, with their filters (the tools that they
judge), and the hooks that its last handshake announced. The forms are in the store of the host, a
file of SQLite, so later hosts have them, too.

If a rejected manifest declares a hook that may stop a call, an extension is added in its place
which is refused from the beginning: a *refused guard*. If the hooks in the manifest cannot be read,
the last known form decides; without one the extension may be a guard, and is treated as one. The
manifest of an extension that is disabled or removed is not among the rejected manifests, so that
extension stops no calls.

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
    manifest   the text of the manifest, which has the filters of the hooks; "" unless a hook in it
               may stop a call
    """

    id: str
    hooks: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    manifest: str = ""


class KnownHooks:
    """The last known forms of the extensions of one host."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The forms that were read or written by this host, by their keys (see `_key`).
        self._forms: dict[str, KnownForm] = {}

    async def recall(
        self, specs: Sequence[Spec], rejected: Iterable[RejectedManifest], config: Config
    ) -> tuple[list[Spec], list[Spec]]:
        """Return these extensions, with the hooks that they announced before (`known_hooks`), and
        the refused guards for the rejected manifests. Record the forms of these extensions."""
        with_hooks = [spec for spec in specs if spec.enabled and _may_have_hooks(spec)]
        # `hooks` is what could be read of a manifest with errors; None for a dialect without hooks.
        rejected = [manifest for manifest in rejected if manifest.hooks is not None]
        if not with_hooks and not rejected:
            return list(specs), []
        keys = [_key(spec) for spec in with_hooks]
        keys += [_rejected_key(manifest) for manifest in rejected]
        self._forms |= await self._read(keys)
        guards = self._make_refused_guards(rejected, {spec.id for spec in specs}, config)
        await self.record(with_hooks)
        return [self._with_announced_hooks(spec) for spec in specs], guards

    def _with_announced_hooks(self, spec: Spec) -> Spec:
        """Return the spec with the hooks that the extension announced before, if there are any."""
        known = self._forms.get(_key(spec))
        if known is None or not known.announced:
            return spec
        return replace(spec, known_hooks=known.announced)

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
        """Return the forms with these keys, as far as the store has them."""
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
        """Keep these forms, and write them to the store in the background."""
        if not forms:
            return
        self._forms.update(forms)
        import json

        rows = [(_as_column(key), json.dumps(form._asdict())) for key, form in forms.items()]

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_TABLE)
            connection.executemany("INSERT OR REPLACE INTO hooks VALUES (?, ?)", rows)

        self._store.write(write).add_done_callback(_log_failure)

    # -- refused guards ------------------------------------------------------------------------

    def _make_refused_guards(
        self, rejected: Sequence[RejectedManifest], taken_ids: set[str], config: Config
    ) -> list[Spec]:
        """Return a refused guard for each of these manifests that may stop a call, and that the
        config does not exclude. Add the ids of the guards to `taken_ids`."""
        guards = []
        filters = _get_filters(config)
        for manifest in rejected:
            guard = self._find_guard(manifest, config)
            if guard is None or guard.id in filters.disabled:
                continue
            if not self._may_be_on_allowlist(guard, manifest, filters.allowlist, taken_ids):
                continue
            id = _make_unique(guard.id, taken_ids)
            taken_ids.add(id)
            spec = config.apply_overrides(replace(guard, id=id))
            refusal = _make_refusal(manifest)
            guards.append(replace(spec, refusal=refusal, config_file=config.origin))
        return guards

    def _may_be_on_allowlist(
        self,
        guard: Spec,
        manifest: RejectedManifest,
        allowlist: Collection[str],
        taken_ids: set[str],
    ) -> bool:
        """Return whether the allowlist of the config may have the id of this guard."""
        if not allowlist or manifest.has_id:
            return True  # discovery has compared an id in the manifest with the allowlist already
        if _rejected_key(manifest) in self._forms:
            return guard.id in allowlist  # its last known id
        # Its id is not known: it may be any of the allowlist that no other extension has.
        return not taken_ids.issuperset(allowlist)

    def _find_guard(self, rejected: RejectedManifest, config: Config) -> Spec | None:
        """Return an extension with the hooks of a rejected manifest, or None if none of them may
        stop a call. If the config pins the manifest (it has the digest of its text), the manifest
        may have been rejected because it was changed, and any hook may have been removed from it.
        The extension is then treated as if it could have any hook."""
        guard = rejected.hooks
        assert guard is not None
        known = self._forms.get(_rejected_key(rejected))
        if known is not None:
            if guard.has_unknown_hooks or not _is_guard(guard):
                guard = _with_known_form(guard, known, rejected)
            guard = replace(guard, known_hooks=known.announced)
        pins = config.apply_overrides(guard).sha256
        if isinstance(pins, Pins) and (pins.manifest or pins.package):
            guard = replace(guard, has_unknown_hooks=True)
        return guard if _is_guard(guard) else None


def _make_unique(id: str, taken_ids: Collection[str]) -> str:
    """Return the id, with a number if another extension has it: "policy-2"."""
    unique_id, number = id, 2
    while unique_id in taken_ids:
        unique_id, number = f"{id}-{number}", number + 1
    return unique_id


class _Filters(NamedTuple):
    """Which discovered extensions the config excludes, by their ids.

    disabled   they are not loaded
    allowlist  unless it is empty, all others are not loaded
    """

    disabled: Collection[str] = ()
    allowlist: Collection[str] = ()


def _get_filters(config: Config) -> _Filters:
    discovery = config.discovery
    return _Filters() if discovery is None else _Filters(discovery.disabled, discovery.allowlist)


def read_known_ids(paths: Iterable[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Return the last known ids of the extensions with these manifests. This is for callers without
    an event loop. If the store cannot be read, return no ids."""
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
    """Return the forms with these keys, as far as the store has them."""
    query = "SELECT form FROM hooks WHERE key = ?"
    import sqlite3

    try:
        rows = {key: connection.execute(query, (_as_column(key),)).fetchone() for key in keys}
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # nothing was stored yet
            return {}
        raise
    return {key: _decode(row[0]) for key, row in rows.items() if row is not None}


def _as_column(key: str) -> str | bytes:
    """Return a key as the store can have it: as bytes if it is a path that is not UTF-8."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogatepass")
    return key


def _may_have_hooks(spec: Spec) -> bool:
    """Return whether the dialect of this extension has hooks."""
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
    """Return the key of the extension with this manifest, as `_key` does."""
    return os.path.realpath(manifest.path)


def _read_text(path: str) -> str:
    """Return the text of a manifest; "" if it cannot be read."""
    from exthost.config.discovery.untrusted_files import read_file

    try:
        return (read_file(os.path.realpath(path)) or b"").decode(errors="surrogateescape")
    except ManifestError:
        return ""


def _with_known_form(guard: Spec, known: KnownForm, rejected: RejectedManifest) -> Spec:
    """Return `guard` with the id and the hooks of its last known form. If the form has the text of
    the manifest, parse it again to get the filters of the hooks, too. That text was accepted when
    it was recorded; if it is not accepted now, its hooks are read as those of a rejected one."""
    former = replace(guard, id=known.id, has_unknown_hooks=False, declared_hooks=known.hooks)
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


def _make_refusal(manifest: RejectedManifest) -> Refusal:
    """Return the reason why the calls are refused that a guard with this manifest would judge."""
    diagnostic = manifest.diagnostic
    return Refusal(
        "X0352",
        f"its manifest is refused: {diagnostic.message} [{diagnostic.code}]",
        f"correct {manifest.path}{f': {diagnostic.help}' if diagnostic.help else ''}",
    )


def _decode(text: str) -> KnownForm:
    """Return a form from its JSON text in the store."""
    import json

    fields = json.loads(text)
    return KnownForm(
        fields["id"], tuple(fields["hooks"]), tuple(fields["announced"]), fields["manifest"]
    )


def _log_failure(future: Future[None]) -> None:
    """Log why a write to the store failed, if it did."""
    error = future.exception()
    if error is not None:
        _log.warning("the hooks of extensions are not remembered: %s", error)
