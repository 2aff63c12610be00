"""The version, which is that of exthost: both are released together."""

__version__ = "0.1.0"
