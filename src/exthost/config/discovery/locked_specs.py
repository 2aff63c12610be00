"""Gives each extension of a config its record in `exthost.lock`, or the reason why it must not
start.

The lock is a file beside the config, which records the approved properties of each extension: its
code, its permissions, its tools. `launch.locked_code` compares an extension with its record at each
start.

The lock is enforced if there is one, unless `[trust] lock` says otherwise. An extension without a
record is refused, and so is every extension if the lock cannot be read. A discovered extension that
neither the config nor the lock names is new, and `[trust] new` decides about it.

The host and the command line both get their specs from here, so all of them obey the lock. Modules
that are needed only with a lock, or for an error, are imported lazily.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from exthost.config.discovery.report import Diagnostic
from exthost.config.discovery.trust import is_named
from exthost.model.lock_record import SpecLock
from exthost.model.spec import Refusal

if TYPE_CHECKING:
    from exthost.config import Config
    from exthost.config.lock_file import Lock, LockProblem
    from exthost.model.spec import Spec


# What happens if an extension differs from its record, or has none: it is not started, it is
# started with a warning, or nothing is compared.
Mode = Literal["enforce", "warn", "off"]


@dataclass(frozen=True, slots=True)
class LockState:
    """How the lock of a config applies.

    mode     "off" if the extensions are not compared with a lock
    lock     the content of the lock; None if there is none, or if it cannot be used
    problem  why the lock cannot be used
    """

    mode: Mode
    lock: Lock | None = None
    problem: LockProblem | None = None

    @property
    def is_present(self) -> bool:
        """Whether there is a lock, also one that cannot be used."""
        return self.lock is not None or self.problem is not None


def read_lock_state(config: Config) -> LockState:
    """Read the lock of a config, unless its `[trust]` turns the lock off."""
    setting = config.trust.lock
    if setting == "off":
        return LockState("off")
    if config.folder is None:  # without a folder there is no lock, even if the config demands one
        return LockState(setting or "off")
    from exthost.config.discovery.lock_reader import read_lock
    from exthost.config.lock_file import LockProblem

    try:
        lock = read_lock(config.folder)
    except LockProblem as problem:
        return LockState(setting or "enforce", problem=problem)
    return LockState(setting or ("off" if lock is None else "enforce"), lock)


def lock_specs(
    config: Config, specs: Iterable[Spec], state: LockState | None = None
) -> tuple[list[Spec], list[Diagnostic]]:
    """Return these extensions, each with its record or a refusal, and the problems of the lock."""
    state = read_lock_state(config) if state is None else state
    diagnostics: list[Diagnostic] = []
    if state.problem is not None:
        refusal = _unusable_refusal(config, state.problem)
        is_enforced = state.mode == "enforce"
        diagnostics.append(_unusable_diagnostic(config, state.problem, refusal, is_enforced))
        if is_enforced:
            return [_refuse(spec, refusal) for spec in specs], diagnostics
    return [_apply_lock(config, spec, state, diagnostics) for spec in specs], diagnostics


def _apply_lock(
    config: Config, spec: Spec, state: LockState, diagnostics: list[Diagnostic]
) -> Spec:
    """Return the extension with its record or a refusal. Add a warning to `diagnostics` if its
    record is missing and the lock only warns."""
    if not spec.enabled:
        return spec
    lock = state.lock
    if lock is not None and state.mode != "off" and (record := lock.records.get(spec.id)):
        return replace(
            spec, lock=SpecLock(record=record, mode=state.mode, path=lock.path, text=lock.text)
        )
    is_new = spec.package is not None and not is_named(config, spec)
    if is_new:
        # A lock that is missing is in force too, if the config demands one.
        is_locked = state.is_present or state.mode == "enforce"
        trust_new = config.trust.new or ("refuse" if is_locked else "allow")
        from exthost.config.discovery.first_use import has_agreed

        # With a lock, an answer to a question is not enough: the record is missing.
        has_consent = trust_new == "ask" and not is_locked and has_agreed(config, spec)
        is_allowed = trust_new == "allow" or has_consent
        return spec if is_allowed else _refuse(spec, _new_refusal(spec, trust_new))
    if state.mode == "enforce":
        return _refuse(spec, _missing_refusal(spec, lock))
    if state.mode == "warn" and state.problem is None:
        missing = _missing_refusal(spec, lock)
        diagnostics.append(
            Diagnostic(
                level="warning",
                path=config.origin,
                message=f"{spec.id}: {missing.message}",
                code=missing.code,
                help=missing.help,
                extension=spec.id,
            )
        )
    return spec


def keep_enforced(config: Config) -> Config:
    """Return the config of a host that has a lock. By default the host enforces it, from now on
    also if the file is deleted."""
    if config.trust.lock is None:
        return replace(config, trust=replace(config.trust, lock="enforce"))
    return config


def without_lock(spec: Spec) -> Spec:
    """Return an extension that is started whatever the lock says, for `dev`, `check` and `lock`."""
    refusal = spec.refusal
    is_refused_by_lock = refusal is not None and refusal.rule in ("lock", "new")
    return replace(spec, lock=None, refusal=None if is_refused_by_lock else refusal)


def _refuse(spec: Spec, refusal: Refusal) -> Spec:
    """Return the extension with this refusal. An earlier refusal stays, and a disabled extension
    needs none."""
    return spec if spec.refusal is not None or not spec.enabled else replace(spec, refusal=refusal)


def _unusable_refusal(config: Config, problem: LockProblem) -> Refusal:
    """Return the refusal of every extension, because the lock cannot be used."""
    from exthost.config.lock_file import LOCK_NAME

    where = f"{LOCK_NAME}, line {problem.line}," if problem.line else LOCK_NAME
    return Refusal(
        "X1823",
        f"{where} cannot be used: {problem}",
        problem.help,
        "lock",
    )


def _unusable_diagnostic(
    config: Config, problem: LockProblem, refusal: Refusal, is_enforced: bool
) -> Diagnostic:
    """Return the problem that the lock cannot be used."""
    from exthost.config.lock_file import LOCK_NAME

    return Diagnostic(
        level="error" if is_enforced else "warning",
        path=f"{config.folder}/{LOCK_NAME}",
        message=refusal.message,
        code=refusal.code,
        help=refusal.help,
        line=problem.line,
    )


def _missing_refusal(spec: Spec, lock: Lock | None) -> Refusal:
    """Return the refusal of an extension without a record. `lock` is None if there is no lock."""
    import shlex

    from exthost.config.lock_file import LOCK_NAME

    if lock is None:
        return Refusal(
            "X1824",
            f"{LOCK_NAME} is missing, without which the config starts nothing",
            f"restore it from your repository; if you trust the extension: exthost lock "
            f"{shlex.quote(spec.id)}",
            "lock",
        )
    return Refusal(
        "X1824",
        f"{LOCK_NAME} has no record of it",
        f"if you trust it: exthost lock {shlex.quote(spec.id)}",
        "lock",
    )


def _new_refusal(spec: Spec, trust_new: str) -> Refusal:
    """Return the refusal of a new extension. `trust_new` is the value of `[trust] new`."""
    import shlex

    from exthost.config.lock_file import LOCK_NAME

    ways = f"exthost lock {shlex.quote(spec.id)}, or name it in the config"
    asks = "exthost run asks on a terminal; or " if trust_new == "ask" else ""
    return Refusal(
        "X1825",
        f"it is new: neither the config nor {LOCK_NAME} names it, and it was found in "
        f"{spec.manifest_file or spec.origin}",
        f"if you trust it: {asks}{ways}",
        "new",
    )
