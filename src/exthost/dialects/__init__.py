"""The dialects: frames ↔ messages, and everything that one system alone says.

A dialect is one importable package, or one module, with a `DIALECT`. Nothing outside of it names
it. In reading order:

    base             Dialect and Traits: what a dialect supplies
    steps            operations and handshakes, and what a generator may yield
    calls            the params and results of the neutral operations
    streams          calls that are answered in events
    meanings         what notifications of the child mean to the host
    host_requests    what an extension may ask of its host
    codec            the interface of codecs
    jsonrpc          what the codecs of JSON messages share
    value_result     tool results that are plain values
    options          the keys of `options` in a config, checked
    manifest_format  what a manifest format is
    find             dialects by name: the built-in ones, and those of installed packages
    sniff            what the first bytes of a child look like

The built-in dialects are `morphir`, `nexo`, `cigen`, `roder`, `synaps` and `mcp`.
"""
