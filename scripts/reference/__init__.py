"""Writes `docs/reference/`, the JSON schema and three modules from the code: `make reference`.

In reading order:

    pages          every file with its text
    config_page    the keys of exthost.toml, with the defaults of each dialect
    events_page    the events
    errors_page    the classes of errors, and every code
    cli_page       the verbs and their options
    api_page       the public names
    facets_page    what single dialects add to an extension
    facet_modules  the facets of the built-in dialects as attributes, for type checkers
    settings_module  the keys of an entry as TypedDicts, for type checkers
    pictures       the life cycle and the packages as SVG
    source_code    signatures and docstrings as they are in the source
    markdown       tables and escapes

A test compares the files with what is made here, so nothing is left out and nothing is stale.
"""
