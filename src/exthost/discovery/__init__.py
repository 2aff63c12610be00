"""Finds extensions on disk: one walk for all manifest formats, then one set of filters.

Blocking. Starts no process and knows no dialect. In reading order:

    configfile         a config file → the extensions that it wants, discovered ones included
    extension_at_path  the extension at a path: a manifest, or a folder
    search             search paths → report; the entry point `discover`
    walk               which files below a search path could be manifests
    untrusted_files    reads one small file from a folder that is not trusted
    links              links to extensions elsewhere, as `exthost install --link` records them
    filters            which of the extensions found are used; pure
    report             the result of a search; pure
    watch              notices changes of manifests
"""
