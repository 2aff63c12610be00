"""From a Spec to a process plan: what is executed, with which variables, held by what.

Nothing here starts a process. In reading order:

    plan         what every start executes, and the check before the first one
    limits       the limits in force: config, dialect, defaults
    program_files  which files are the program: what is executed, and its script
    integrity    pinned digests: the program, the manifest, the tools
    variables    which variables of the host an extension gets to know
    admission    what a sandboxed extension is shown, decided once
    own_user     as whom a root host runs a sandboxed extension
    containment  sandbox, resource limits and cgroup: as configured, as this machine allows
"""
