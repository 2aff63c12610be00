"""The registry: finds a tool, and the extension that has it, by the tool's name.

A tool can be named in three ways:

- its registered name, such as `ext_weather_forecast` (see `names`);
- `extension:tool`, where `extension` is the id of the extension or the name that it reports;
- the tool's own name, such as `forecast`, if only one extension has a tool of that name, or only
  one extension with the requested capability.

If two extensions have a tool with the same registered name, the first extension in the order of the
host gets the name, and a warning about the second extension is logged.

A name means the same tool whatever state its extension is in. While an extension does not serve (it
is stopped or has failed), its tools are not listed, but the names in its last offer (the tools that
it announced) stay reserved for it: a look-up by such a name fails, and no other extension gets the
name until the first one is unloaded. Two more rules apply to extensions that have offered nothing
yet: a text that begins like the registered names of a loaded extension (`ext_weather_`) is never
looked up as a tool's own name, and in `extension:tool` the id of a loaded extension comes before
any name that another one reports.

A tool in quarantine, which differs from the lock of the config, is not listed either. Its name
stays its own, and a look-up by the name raises the error that says what differs.

The tables of names are built at the first look-up after a change, not at each change. So a
hundred extensions that start one after another cause a single build. Any thread may look up a tool
while the event loop changes extensions: each change begins new tables, and tables that are being
built meanwhile are not used. The registry does no I/O, except that it logs warnings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from exthost.errors import NotFound
from exthost.model.names import capability_fits, nearest, prefixed_description, registered_prefix
from exthost.model.offer import RegisteredTool

if TYPE_CHECKING:
    from exthost.model.lock_record import Quarantine
    from exthost.model.offer import Offer, Tool

_log = logging.getLogger("exthost.host.registry")

# An error message lists at most this many names.
_MAX_LISTED_NAMES = 5


class _Internals(Protocol):
    """The part of `Extension.internals` that the registry reads."""

    @property
    def serves(self) -> bool: ...
    def registered_name(self, tool: str) -> str: ...


class ToolOwner(Protocol):
    """The attributes of an extension that the registry reads."""

    @property
    def id(self) -> str: ...
    @property
    def internals(self) -> _Internals: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def quarantined(self) -> Mapping[str, Quarantine]: ...
    @property
    def offer(self) -> Offer: ...


class _Tables:
    """The tables of names between two changes.

    is_built     whether the tables below are complete
    tools        the tools that can be called, by registered name
    owners       the id of the extension of each of them and the tool's own name, by registered name
    by_name      the tools by registered name, also those of extensions that do not serve
    by_own_name  the tools by their own names, also those of extensions that do not serve
    quarantined  why a tool must not be called, by the id of its extension and its own name
    serves       whether an extension serves, by its id
    prefixes     the beginnings of the registered names of each extension
    """

    def __init__(self) -> None:
        self.is_built = False
        self.tools: dict[str, RegisteredTool] = {}
        self.owners: dict[str, tuple[str, str]] = {}
        self.by_name: dict[str, RegisteredTool] = {}
        self.by_own_name: dict[str, list[RegisteredTool]] = {}
        self.quarantined: dict[tuple[str, str], Quarantine] = {}
        self.serves: dict[str, bool] = {}
        self.prefixes: tuple[str, ...] = ()

    def get_candidates(self, name: str) -> list[RegisteredTool]:
        """Return the tools that the name can mean, in any of the three forms."""
        registered = self.by_name.get(name)
        if registered is not None:
            return [registered]
        extension, colon, tool_part = name.partition(":")
        if not colon:
            return [] if name.startswith(self.prefixes) else self.by_own_name.get(name, [])
        tools = self.by_own_name.get(tool_part, [])
        if extension in self.serves:
            return [tool for tool in tools if tool.extension == extension]
        # `provider` is the name that the extension reports for itself.
        return [tool for tool in tools if tool.provider == extension]


class Registry:
    """The tools of one host by their names."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        """`on_change` is called at each `mark_stale`. It is not called by `set_extensions`, which
        the host calls while it is created, before anyone can use its tools."""
        self._on_change = on_change
        self._extensions: Iterable[ToolOwner] = ()
        self._tables = _Tables()
        # The table `owners`, which is empty until the tables are built. `Host.call_tool` looks here
        # first, because this needs no check and no function call. If the name is missing, it uses
        # `find`, which builds the tables.
        self.fresh_owners: Mapping[str, tuple[str, str]] = self._tables.owners
        # Each warning is logged once. `RegisteredTools` adds its warnings to the same set.
        self.logged_warnings: set[str] = set()

    def set_extensions(self, extensions: Iterable[ToolOwner]) -> None:
        """Use the tools of these extensions, in this order. `extensions` is iterated again for each
        build, so a view such as `dict.values()` stays up to date."""
        self._extensions = extensions
        self._begin_tables()

    def mark_stale(self) -> None:
        """Make the next look-up build the tables again, and call `on_change`. Call this when the
        offer (the tools, hooks and capabilities) or the state of an extension has changed, or when
        an extension was added, replaced or removed."""
        self._begin_tables()
        if self._on_change is not None:
            self._on_change()

    def _begin_tables(self) -> None:
        """Begin new tables, which the next look-up builds. Threads that use the old tables can
        finish."""
        self._tables = _Tables()
        self.fresh_owners = self._tables.owners

    @property
    def tools(self) -> Mapping[str, RegisteredTool]:
        """The tools by registered name, in the order of the extensions."""
        return MappingProxyType(self._get_tables().tools)

    def get(self, name: str) -> RegisteredTool | None:
        """Return the tool of this registered name, or None. Other forms of a name need `find`."""
        tables = self._tables
        if not tables.is_built:
            tables = self._get_tables()
        try:
            return tables.tools.get(name)
        except TypeError:  # a list or another value without a hash, which is not a name
            return None

    def get_candidates(self, name: str) -> list[RegisteredTool]:
        """Return the tools that this name can mean, in any of the three forms, also those of
        extensions that do not serve."""
        return list(self._get_tables().get_candidates(name))

    def find(self, name: str, *, capability: str = "") -> RegisteredTool:
        """Return the tool with this name, in any of the three forms, of an extension with this
        capability ("" for any). Raises NotFound if no tool or several tools match, or if the
        extension of the tool does not serve; only then the error has its id as `extension`. Raises
        Refused for a tool in quarantine."""
        tables = self._get_tables()
        candidates = tables.get_candidates(name)
        if capability and candidates:
            candidates = [tool for tool in candidates if _has_capability(tool, capability)]
            if not candidates:
                raise NotFound(
                    "X1220",
                    f"no extension with the capability {capability} has a tool {name!r}",
                    help="exthost inspect shows the capabilities of an extension",
                )
        if len(candidates) == 1:
            [tool] = candidates
            if quarantine := tables.quarantined.get((tool.extension, tool.tool)):
                from exthost.extension.quarantine import quarantine_error

                raise quarantine_error(tool.extension, quarantine)
            if tables.serves[tool.extension]:
                return tool
            raise _not_serving_error(name, tool.extension)
        raise _not_found_error(name, candidates, tables)

    def _get_tables(self) -> _Tables:
        """Return the tables, complete. Several threads may build the same tables at a time."""
        tables = self._tables
        if not tables.is_built:
            self._build(tables)
        return tables

    def _build(self, tables: _Tables) -> None:
        """Build these tables from the tools of the extensions."""
        tools: dict[str, RegisteredTool] = {}
        owners: dict[str, tuple[str, str]] = {}
        by_name: dict[str, RegisteredTool] = {}
        by_own_name: dict[str, list[RegisteredTool]] = {}
        serves: dict[str, bool] = {}
        quarantined: dict[tuple[str, str], Quarantine] = {}
        warnings = []
        # A copy: a thread of `SyncHost` may be here while the event loop adds an extension.
        for extension in list(self._extensions):
            serves[extension.id] = extension.internals.serves
            refused = {item.tool.name: item for item in extension.quarantined.values()}
            quarantined |= {(extension.id, name): item for name, item in refused.items()}
            all_tools = (*extension.tools.values(), *(item.tool for item in refused.values()))
            for tool in all_tools:
                registered = _register(extension, tool)
                # The first tool with this registered name, which gets the name.
                first = by_name.setdefault(registered.name, registered)
                is_allowed = tool.name not in refused
                if first is registered and is_allowed and serves[extension.id]:
                    tools[registered.name] = registered
                    owners[registered.name] = (extension.id, tool.name)
                by_own_name.setdefault(tool.name, []).append(registered)
                if first is not registered:
                    warnings.append(
                        f"{registered.name} is taken by {first.extension}:{first.tool}, "
                        f"so {registered.extension}:{registered.tool} is not listed under it"
                    )
        tables.tools, tables.by_name, tables.by_own_name = tools, by_name, by_own_name
        tables.serves, tables.prefixes = serves, tuple(map(registered_prefix, serves))
        tables.quarantined = quarantined
        tables.owners.update(owners)  # the same dict, because `fresh_owners` refers to it
        # Last, because another thread may use the tables meanwhile, and an exception of a signal
        # handler may end this function before they are complete.
        tables.is_built = True
        for warning in warnings:
            log_once(_log, self.logged_warnings, warning)


# How many warnings of one kind a host logs. An extension can offer a million tools whose names
# collide, and other ones whenever it likes.
MAX_LOGGED_WARNINGS = 1000


def log_once(logger: logging.Logger, logged_warnings: set[str], warning: str) -> None:
    """Log a warning that is not in the set, and add it. A full set is not extended: then nothing
    more is logged, which is a last warning."""
    if warning in logged_warnings or len(logged_warnings) > MAX_LOGGED_WARNINGS:
        return
    if len(logged_warnings) == MAX_LOGGED_WARNINGS:
        warning = "there are too many different warnings; further ones are not logged"
    logged_warnings.add(warning)
    logger.warning("%s", warning)


class AmbiguousName(NotFound):
    """Several extensions have a tool of this name."""


def _not_serving_error(name: str, extension: str) -> NotFound:
    import shlex

    return NotFound(
        "X1201",
        f"the tool {name!r} is one of {extension}, which does not run now",
        extension=extension,
        help=f"exthost status shows why, and exthost start {shlex.quote(extension)} starts it",
    )


def _not_found_error(name: str, candidates: list[RegisteredTool], tables: _Tables) -> NotFound:
    if candidates:
        names = ", ".join(tool.name for tool in candidates[:_MAX_LISTED_NAMES])
        return AmbiguousName(
            "X1204",
            f"{len(candidates)} extensions have a tool {name!r}",
            help=f"use one of these names: {names}",
        )
    # Suggest no own name that begins like registered names: it would not be looked up.
    own_names = (name for name in tables.by_own_name if not name.startswith(tables.prefixes))
    pairs = (f"{extension}:{tool}" for extension, tool in tables.owners.values())
    forms = pairs if ":" in name else own_names
    nearest_name = nearest(name, [*tables.tools, *forms])
    if name in tables.serves:
        help = f"{name} is an extension: name one of its tools, as in {name}:TOOL (exthost tools)"
    elif nearest_name is not None:
        help = f"did you mean {nearest_name!r}?"
    elif tables.tools:
        help = "see the list of tools: exthost tools"
    else:
        help = "no extension offers a tool right now: see exthost list"
    return NotFound("X1201", f"there is no tool {name!r}", help=help)


def _has_capability(tool: RegisteredTool, capability: str) -> bool:
    """Return whether the extension of a tool has this capability. Both the requested capability and
    those of the extension may be patterns with `*`."""
    return any(capability_fits(capability, offered) for offered in tool.capabilities)


def _register(extension: ToolOwner, tool: Tool) -> RegisteredTool:
    """Return a tool as the host offers it: under its registered name, with its extension."""
    return RegisteredTool(
        name=extension.internals.registered_name(tool.name),
        description=prefixed_description(extension.id, tool.description),
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        extra=tool.extra,
        tool=tool.name,
        extension=extension.id,
        provider=extension.offer.name,
        capabilities=extension.offer.capabilities,
    )
