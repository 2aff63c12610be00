"""How `exthost check` checks roder extensions: which requirement each check tests."""

from types import MappingProxyType

from exthost.dialects.conformance import Conformance, audit_by_readers
from exthost.dialects.roder.dialect import DIALECT

CONFORMANCE = Conformance(
    rules=MappingProxyType(
        {
            "manifest": "roder-manifest-03",
            "handshake": "roder-echo-03",
            "stdout-noise": "roder-wire-02",
            "json": "roder-wire-01",
            "message-form": "roder-wire-01",
            "one-line": "roder-wire-01",
            "utf8": "roder-wire-01",
            "number": "roder-wire-01",
            "version-member": "roder-wire-01",
            "reply-id": "roder-wire-05",
            "reply-id-type": "roder-wire-05",
            "reply-form": "roder-wire-07",
            "error-form": "roder-wire-07",
            "message-size": "roder-wire-03",
            "joined-frames": "roder-wire-10",
            "unknown-method": "roder-wire-06",
            "shutdown": "roder-life-08",
            "end-of-input": "roder-life-08",
            "restart": "roder-life-07",
            "tools": "roder-manifest-04",
            "input-schema": "roder-manifest-04",
            "result": "roder-tools-04",
        }
    ),
    audit_notification=audit_by_readers(DIALECT.notifications),
)
