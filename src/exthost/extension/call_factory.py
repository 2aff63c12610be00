"""Makes the parts of a `Call` from the name of a method, operation or tool and its arguments.

A call names one of three things: a *method* of the dialect (the protocol that the extension
speaks), as `ext.call("tools/list")` does; an *operation*, which has the same name in every dialect,
such as `call_tool`; or a *tool*.

Translates the name and the arguments to a request of the dialect, checks the arguments of tools
against their schemas, and applies the time limits. The result, `CallParts`, is the first four
arguments of a `Call`: the method, the params, the handler of the reply, and the timeout. Sends
nothing.
"""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from exthost.dialects.base import Dialect
from exthost.dialects.calls import ToolCall, tool_as_method
from exthost.dialects.steps import OneRequest, OneRequestOrMore, Operation
from exthost.errors import NotFound, Refused, UsageError
from exthost.extension.misuse import check_context, check_name, check_timeout
from exthost.extension.quarantine import quarantine_error
from exthost.extension.timeouts import no_time_left_error, require_time_left
from exthost.launch.limits import resolve_method_limits
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.lock_record import Quarantine
from exthost.model.offer import Tool
from exthost.model.schema import Checker
from exthost.model.spec import Limits, Spec
from exthost.session.call import Call
from exthost.session.replies import (
    DELIVER,
    GeneratorHandler,
    MapResultHandler,
    OneRequestOrMoreHandler,
    ReplyHandler,
)

_log = logging.getLogger("exthost.extension")

_new_tuple = tuple.__new__


CallParts: TypeAlias = tuple[str, Any, ReplyHandler, float]
"""The method, the params, the handler of the reply and the timeout in seconds. A plain tuple,
because each call makes such a tuple, and a named tuple takes ten times as long to make."""

PreparedTool: TypeAlias = tuple[Tool, str, Callable[[Any], bool] | None, Checker | None, float]
"""A tool that is ready to be called, as a plain tuple, which is faster: the tool; the extension's
name for it; a quick check of its arguments, which may raise (None: this schema has no quick check);
the full check (None: every value is valid); and the time limit of a call without a timeout, in
seconds."""


class CallFactory:
    """Makes the `CallParts` of one extension's calls."""

    __slots__ = (
        "_call_limit",
        "_call_tool",
        "_dialect",
        "_has_fixed_methods",
        "_limits_each_request",
        "_method_limits",
        "_methods",
        "_spec",
        "_tool_handler",
        "_tool_is_method",
        "_tool_request",
        "find_quarantined",
        "hide_secrets",
        "tool_limit",
    )

    def __init__(self, spec: Spec, dialect: Dialect, limits: Limits) -> None:
        assert limits.call is not None
        self._spec = spec
        self._dialect = dialect
        self._call_limit = limits.call
        self._method_limits = resolve_method_limits(spec, dialect)
        # In positional dialects (replies carry no id and match requests by order) the default limit
        # applies to each request of an operation, not to the whole operation.
        self._limits_each_request = dialect.traits.positional
        self._methods = dialect.methods
        self._has_fixed_methods = dialect.has_fixed_methods
        self._call_tool = dialect.operations.get("call_tool")
        # What `for_tool` would find out anew for each call: the handler that all calls of tools
        # share; the function that makes the request of such a call, if that is a single request;
        # and whether the name of the tool is the method of that request.
        self._tool_handler = _make_shared_handler(self._call_tool)
        self._tool_request = (
            self._call_tool.request if isinstance(self._call_tool, OneRequest) else None
        )
        self._tool_is_method = self._tool_request is tool_as_method
        # Returns the tools in quarantine by name: they differ from the lock of the config, and must
        # not be called.
        self.find_quarantined: Callable[[], Mapping[str, Quarantine]] = dict
        # Returns a text about a schema without the secrets of the extension.
        self.hide_secrets: Callable[[str], str] = str
        self.tool_limit = self.time_limit_for("call_tool")

    def time_limit_for(self, method: str) -> float:
        """Return the time limit of a method or operation, in seconds."""
        return self._method_limits.get(method, self._call_limit)

    def time_limit_of_tool(self, name: str, timeout: float | None) -> float:
        """Return the seconds that a call of a tool has. Raises CallTimeout if no time is left."""
        if timeout is None:
            return self.tool_limit
        return require_time_left(self._spec.id, name, timeout)

    def for_method(self, method: str, params: Any, timeout: float | None) -> CallParts:
        """Return the parts of a call of a method, which is given by its name in the request."""
        if type(method) is not str:
            check_name(method)
        self.refuse_quarantined(method, params)
        if timeout is None:
            limit = self.time_limit_for(method)
        elif type(timeout) is float and timeout > 0.0:  # the quick check; NaN is not above 0
            limit = timeout
        else:
            limit = check_timeout(timeout)
            if limit <= 0.0:
                raise no_time_left_error(self._spec.id, method, limit)
        operation = self._methods.get(method)
        if operation is not None:
            return self._for_operation(operation, method, params, limit, timeout is None)
        if self._has_fixed_methods:
            method_names = ", ".join(self._dialect.methods)
            raise NotFound(
                "X1203",
                f"the {self._dialect.name} dialect has no method {method!r}",
                extension=self._spec.id,
                help=f"its methods are: {method_names}",
            )
        return method, params, DELIVER, limit

    def refuse_quarantined(self, method: str, params: Any) -> None:
        """Raise Refused if a method of the dialect would call a tool in quarantine: if the tool is
        the method, or a part of its name, or a value of its parameters. The standard methods that
        call no tool are allowed: a prompt can have the name of a tool."""
        if (refused := self._find_refusal(method, params)) is not None:
            raise refused

    def find_refusal(self, call: Call) -> Refused | None:
        """Return the error of a call that would call a tool in quarantine; None for others."""
        return self._find_refusal(call.method, call.params)

    def _find_refusal(self, method: str, params: Any) -> Refused | None:
        quarantined = self.find_quarantined()
        if not quarantined:
            return None
        for name in self._find_possible_tools(method, params) & quarantined.keys():
            return quarantine_error(self._spec.id, quarantined[name])
        return None

    def _find_possible_tools(self, method: str, params: Any) -> set[str]:
        """Return every name that may be the tool that a request calls. Only the extension knows
        which it is, so in doubt a name is among them."""
        if isinstance(params, ToolCall):  # the handler of the reply makes the request from it
            return {params.name}
        if method in self._dialect.methods_without_tools:
            return {method}  # there may be a tool of this name all the same
        # In "plugin/shout" the tool may be "plugin", "shout" or the whole.
        names = {method, *re.split(r"[./:]", method)}
        # A tool can have these characters in its name: "b.c" in "a/b.c".
        names |= {method[found.end() :] for found in re.finditer(r"[./:]", method)}
        if isinstance(params, Mapping) and not self._tool_is_method:
            # Synaps announces names with spaces around them, and is called by these.
            names |= {value.strip() for value in params.values() if isinstance(value, str)}
        return names

    def for_operation(
        self, name: str, params: Any, timeout: float | None, display_name: str = ""
    ) -> CallParts:
        """Return the parts of a call of an operation that has the same name in every dialect, such
        as `call_tool`; `display_name` is its name in errors and events."""
        operation = self._dialect.operations.get(name)
        if operation is None:
            raise self._no_operation_error(name)
        display_name = display_name or name
        if timeout is None:
            limit = self.time_limit_for(name)
        else:
            limit = require_time_left(self._spec.id, display_name, timeout)
        return self._for_operation(operation, display_name, params, limit, timeout is None)

    def for_tool(
        self,
        prepared: PreparedTool,
        arguments: Any,
        timeout: float | None,
        context: Mapping[str, Any],
    ) -> CallParts:
        """Return the parts of a call of a tool. Raises UsageError if the arguments do not fit its
        schema."""
        tool, name, quick_check, checker, tool_limit = prepared
        if arguments is None:
            arguments = {}
        if context is not EMPTY_MAPPING:
            context = check_context(context)
        try:
            is_valid = quick_check is not None and quick_check(arguments)
        except KeyboardInterrupt:
            raise
        except BaseException:
            # The quick check is native code, which reports an internal failure (a panic) as a
            # BaseException. The full check decides then.
            is_valid = False
        if not is_valid and checker is not None:
            problems = checker.problems(arguments)
            if problems:
                raise self._bad_arguments_error(tool, problems)
        if timeout is None:
            limit = tool_limit
        elif type(timeout) is float and timeout > 0.0:  # the quick check; NaN is not above 0
            limit = timeout
        else:
            limit = check_timeout(timeout)
            if limit <= 0.0:
                raise no_time_left_error(self._spec.id, name, limit)
        handler = self._tool_handler
        if self._tool_is_method and handler is not None:  # the tool's name is the method
            return name, arguments, handler, limit
        # Not ToolCall(…), which takes twice as long; this line runs for each call.
        tool_call = _new_tuple(ToolCall, (name, arguments, context, tool, self._spec))
        if handler is None:
            return self._for_tool_operation(name, tool_call, limit, timeout is None)
        if self._tool_request is not None:
            method, params = self._tool_request(tool_call)
            return method, params, handler, limit
        return name, tool_call, handler, limit  # the handler makes the request from `tool_call`

    def _for_tool_operation(
        self, name: str, tool_call: ToolCall, limit: float, is_default: bool
    ) -> CallParts:
        """Return the parts of a call of a tool in a dialect whose calls cannot share a reply
        handler. Raises UsageError if the dialect has no tools."""
        if self._call_tool is None:
            raise self._no_operation_error("call_tool")
        return self._for_operation(self._call_tool, name, tool_call, limit, is_default)

    def _for_operation(
        self, operation: Operation, name: str, params: Any, limit: float, is_default: bool
    ) -> CallParts:
        """Return the parts of a call of an operation. `is_default`: the caller set no timeout, so
        `limit` is the configured limit."""
        if isinstance(operation, OneRequest):
            method, wire_params = operation.request(params)
            reply_handler = (
                DELIVER if operation.result is None else MapResultHandler(operation.result)
            )
            return method, wire_params, reply_handler, limit
        if isinstance(operation, OneRequestOrMore):
            return name, params, OneRequestOrMoreHandler(operation), limit
        limits_each = is_default and self._limits_each_request
        handler = GeneratorHandler(operation(params), limits_each_request=limits_each)
        return name, params, handler, limit

    def prepare(self, tool: Tool) -> PreparedTool:
        """Make the checks of a tool's arguments."""
        checker = Checker.of(tool.input_schema)
        if checker is not None and checker.warning:
            warning = self.hide_secrets(f"{tool.name}: {checker.warning}")
            _log.warning("[%s] %s", self._spec.id, warning)
        quick_check = None if checker is None else checker.passes
        return tool, tool.original_name or tool.name, quick_check, checker, self._limit_of(tool)

    def _limit_of(self, tool: Tool) -> float:
        """Return the time limit of a tool's calls. An extension may set it, but not beyond what the
        operator sets."""
        if tool.seconds is None or self._spec.limits.call is not None:
            return self.tool_limit
        permissions = self._spec.permissions
        limit = None if permissions is None else permissions.max_execution_time
        return tool.seconds if limit is None else min(tool.seconds, limit)

    def _bad_arguments_error(self, tool: Tool, problems: list[str]) -> UsageError:
        return UsageError(
            "X1301",
            f"the arguments of {tool.name} do not fit its schema: "
            f"{self.hide_secrets('; '.join(problems))}",
            extension=self._spec.id,
            help="nothing was sent: correct the arguments; `exthost inspect --json`, with the same "
            "NAME or -- COMMAND, prints the schema, and `extension.offer.tools` has it in Python",
        )

    def _no_operation_error(self, name: str) -> UsageError:
        return UsageError(
            "X1308",
            f"the {self._dialect.name} dialect has no way to do this: {name}",
            extension=self._spec.id,
        )


def _make_shared_handler(operation: Operation | None) -> ReplyHandler | None:
    """Return a handler that all calls of this operation can share; None if each call needs its
    own handler."""
    if isinstance(operation, OneRequest):
        return DELIVER if operation.result is None else MapResultHandler(operation.result)
    return OneRequestOrMoreHandler(operation) if isinstance(operation, OneRequestOrMore) else None
