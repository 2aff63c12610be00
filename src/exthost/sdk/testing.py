"""Connects an extension to the real host inside its author's own tests: `testing.connect`."""

from exthost_sdk.testing import Client, connect

__all__ = ["Client", "connect"]
