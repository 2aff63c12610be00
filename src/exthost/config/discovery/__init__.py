"""Finds extensions on disk: one walk for all manifest formats, then one set of filters.

The functions block. They start no process, and no module depends on a particular dialect (the
protocol that an extension speaks). In reading order:

    configfile         reads a config file, and finds its extensions, discovered ones included
    extension_at_path  finds the extension at a path: a manifest, or a folder
    search             searches for extensions: `discover`, the entry point
    walk               finds the files below a search path that could be manifests
    untrusted_files    reads one small file from a folder that is not trusted
    writable_files     finds configs and search paths that other users can write
    links              the record of symlinks that `exthost install --link` makes
    filters            decides which of the discovered extensions are used
    trust              decides which of them a config must not let start
    locked_specs       gives each extension its record in `exthost.lock`
    lock_reader        reads that file
    first_use          remembers which new extensions a person has agreed to
    report             the result of a search, as values
    watch              detects changes of manifests
"""
