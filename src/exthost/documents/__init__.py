"""Reads and checks the values in configs and manifests. Knows no dialect and opens no file.

In reading order:

    problems        mistakes, and where they are
    readers         check single values and tables; report unknown keys
    units           durations and sizes
    toml_positions  the line of each key in a TOML text
    jsonc           JSON with comments
    keys            a key as data: its reader, type, default, example and sentence
    setting_keys    the table of the keys that all extensions share in a config
    settings        the values of those keys, and which takes precedence
    entry           one extension as a config describes it
"""
