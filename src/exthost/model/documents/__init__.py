"""Reads and checks the values in configs and manifests. No module here depends on a dialect (the
protocol that an extension speaks) or opens a file.

In reading order:

    problems        collects the problems of a file, with the place of each
    readers         functions that check single values and tables; unknown keys are problems
    units           parses durations ("500ms") and sizes ("256MiB")
    toml_text       parses TOML, and refuses keys that would take the parser minutes
    toml_positions  finds the line of each key in a TOML text
    jsonc           parses JSON with comments
    keys            `Key`: a config key as data (reader, type, default, example, one sentence)
    header_injection  the key `inject`: headers with secrets that the proxy adds
    setting_keys    the settings that every extension may have, as fields that are also `Key`s
    settings        `Settings`: the values of those keys, and how the three places are merged
    remote_server   a remote MCP server: its URL, headers, token and transport
    entry           `Entry`: one extension as a config describes it
"""
