"""Checked reading of what people write: configs and manifests. Knows no dialect and no file.

In reading order:

    problems        mistakes, and where they are
    readers         checked reading of single values and of tables; unknown keys
    units           durations and sizes
    toml_positions  on which line of a TOML text a key is
    jsonc           JSON with comments
    settings        the keys that all extensions share in a config, and who wins
    entry           one extension as a config describes it
"""
