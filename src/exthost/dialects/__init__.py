"""The dialects: the protocols that extensions of different systems speak.

A dialect is one importable package. It defines how bytes become messages, and what the messages of
its protocol mean. The built-in dialects are the subpackages here; other packages can install more.
No module outside a dialect's package names the dialect. In reading order:

    base               Dialect and Traits: the parts that a dialect supplies
    steps              operations and handshakes, and the steps that a generator may yield
    calls              params and results of operations that are the same in every dialect
    streams            calls that are answered with a sequence of events
    meanings           what a notification of an extension makes the host do
    host_requests      requests that an extension may send to its host
    handshake_context  the values that a handshake may use
    caller             the interface through which a facet uses an extension
    codec              the interface of codecs
    json_codec         the parts that codecs of JSON messages have in common
    value_result       tool results that are plain values
    missing_facet      the error for a facet that the dialect of an extension does not have
    facet_attributes   the facets of the built-in dialects, as typed attributes (generated)
    blocking_methods   blocking forms of asynchronous methods, for blocking facets
    model_provider     the base class of facets with models that complete conversations
    options            the checks of `options` in a config
    manifest_format    the interface of manifest formats
    manifest_table     reads and checks the keys of one table of a manifest
    package            DialectPackage: what the host reads before it uses a dialect
    find               finds the installed dialects by name
    sniff              recognises a dialect by the first bytes of a process's output
    conformance        how `exthost check` checks extensions of a dialect
    rules              the rules of `exthost check` (`rules.toml`)
    message_audit      checks the messages of an extension against these rules
    hostile_peer       how the hostile extension of the fault tests speaks a dialect

A facet is a group of operations that only extensions of one dialect have, such as `ext.providers`.
"""
