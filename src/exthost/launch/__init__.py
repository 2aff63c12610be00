"""From a Spec to a launch plan: what is executed, with which variables, in which containment.

This package starts no processes. In reading order:

    plan           what every start executes, and the check before the first one
    prerequisites  required programs and variables, unique names, values of the settings
    limits         which limits apply: from the config, the dialect or the defaults
    program_files  which files are the program: the executable, and its script
    package_tree   one digest of all files of a package, and which of them differ
    integrity      pinned digests: the program, its interpreter and package, the manifest, the tools
    variables      which of the host's variables an extension gets
    machine_check  whether this machine can contain an extension as configured
    shared_folders whether one extension may write what another one runs
    admission      what a sandboxed extension is shown, decided once
    own_user       the user that a root host runs a sandboxed extension as
    containment    sandbox, resource limits and cgroup
"""
