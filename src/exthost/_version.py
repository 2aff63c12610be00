"""The one place the version is written; the build and `exthost --version` read it here."""

__version__ = "0.1.0"
