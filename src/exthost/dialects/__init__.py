"""The dialects: frames ↔ messages, and everything that one system alone says.

A dialect is one importable package. The built-in ones are the packages in here; others are
installed beside exthost. Nothing outside of its package names a dialect. In reading order:

    base               Dialect and Traits: what a dialect supplies
    steps              operations and handshakes, and what a generator may yield
    calls              the params and results of the neutral operations
    streams            calls that are answered in events
    meanings           what notifications of the child mean to the host
    host_requests      what an extension may ask of its host
    codec              the interface of codecs
    json_codec         what the codecs of JSON messages share
    value_result       tool results that are plain values
    facet_placeholder  what an extension has in place of a facet that its dialect lacks
    facet_attributes   the facets of the built-in dialects, as typed attributes (generated)
    blocking_methods   blocking forms of asynchronous methods, for blocking facets
    model_provider     facets with models that complete conversations
    options            the keys of `options` in a config, checked
    manifest_format    what a manifest format is
    package            DialectPackage: what the host reads of a dialect before it is used
    find               the dialects that are installed, by name
    sniff              what the first bytes of a child look like
    conformance        what `exthost check` needs to know of a dialect
    rules              the rules that extensions are held to (`rules.toml`)
    message_audit      messages of an extension against these rules
    hostile_peer       what the fault tests need to know of a dialect
"""
