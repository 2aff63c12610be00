"""Values, and rules about them that need no clock, no file and no process.

In reading order:

    spec              how one extension is configured: command, variables, limits, permissions
    offer             the tools, hooks and capabilities that an extension announces
    lock_record       what was approved of an extension, and how two such records differ
    change_text       a difference between two such records, in one line
    text_review       the words that changed in a text, and what the text hides
    messages          requests, replies and notifications, the same in every dialect
    launch_plan       exactly what is executed for one process
    observed_access   what a program did while it was observed
    shutdown_steps    the steps by which a dialect ends a process
    probe_result      which sandboxes work on this machine
    network_rules     which hosts an extension can connect to through its proxy
    patterns          patterns of names with `*` and `?`
    tool_choice       which tools of an extension exist for its host
    rules             which tool calls are allowed, denied, or need a person
    result_limit      how much of a tool's result a model reads
    shortened_text    the beginning of a text of an extension, for a message
    names             which names are allowed, and how tool names are made unique
    secret_names      which names of variables, fields and options are those of secrets
    schema            checks arguments against the JSON Schema of a tool
    schema_survey     finds out whether a schema is safe to be given to a validator
    semver            semantic versions
    versionreq        Cargo's version requirements
    connection_limit  which connection is closed when a server has too many
    error_catalog     what each error code means, read from `errors.toml`
    package_tables    reads the TOML files that lie beside modules
    empty_mapping     an empty mapping that cannot be changed
    documents         values from TOML, JSON and YAML documents, with the line of each problem
"""
