"""Turns a Spec (the configuration of one extension) into a launch plan: what is executed, with
which variables, in which sandbox.

This package starts no processes. In reading order:

    plan           `admit`, the checks before the first start and before a requested restart, and
                   `prepare`, the plan of each start
    prerequisites  required programs and variables, unique names, values of the settings
    limits         which limits apply: from the config, the dialect or the defaults
    known_programs the options of wrappers, interpreters and runners, from a TOML file
    command_options splits the arguments of such a program into options and the rest
    python_modules finds the file or folder of a module as `python -m` does
    package_runners finds the installed package that npx or uvx runs
    command_code   `find_code`, which code a command runs, and how certain that is
    registry_package  the package of a registry that a command runs, and its digest there
    program_files  the paths of a program: the executable, its script, the folder of its modules
    package_tree   one digest of all files of a package, and which files differ from a pinned state
    integrity      compares program, package, manifest and tools with digests from the config
    portable_tree  digests of code that are the same on two machines
    tree_snapshot  what was read of a folder, for as long as nothing in it changes
    bytecode_compiler  compiles Python modules, in a process of the interpreter that will run them
    sealed_bytecode  compiles the modules of a locked extension once, for its starts in a sandbox
    bytecode       keeps a locked extension from running compiled files that no lock covers
    locked_code    compares what a start would run with its record in `exthost.lock`
    variables      which of the host's environment variables an extension gets
    secret_sources reads the secrets that a config refers to: files, commands, the keyring
    header_injection  gives secrets to the proxy of an extension instead of the extension
    bridge         the command of the bridge to a remote server, and its permissions
    wasm_runner    runs a WebAssembly module, in a process of its own
    wasm           the command that runs a module, its permissions, its compilation
    machine_check  whether this machine can enforce the sandbox that an extension is configured for
    apparmor       the AppArmor profile that lets bubblewrap make user namespaces, as text
    sandbox_probe  finds out by trial which sandboxes work on this machine
    command        the program, arguments and variables of an extension, before a sandbox is added
    code_paths     what a start reads as code, for an extension and for the host
    known_tools    what interpreters and package managers read as code, by their names
    protected_paths  which code is mounted read-only in the folders that an extension may write
    shared_folders protects code in the folders that an extension may write, or refuses one of the
                   extensions
    visible_paths  collects visible paths, and the symlinks that lead to them
    managers       lists what is shown of the folders of version and package managers
    runtimes       finds the files that a program needs to run
    file_view      decides which paths a sandboxed extension sees
    admission      decides which files a sandboxed extension sees, for all starts until the next one
                   that is requested
    admission_record  the result of an admission, as a value
    extension_user the user that a root host runs a sandboxed extension as
    containment    adds the sandbox, resource limits and the cgroup to a plan
    network_grant  plans the proxy of an extension that may reach certain hosts
    sandbox/       pure: command lines, system call filters and limits of sandboxes
    template_plan  the template of a Python program: its command, variables and sandbox
    grant_advice   suggests which path to grant, and never a secret or a home folder
    known_policies permissions for commonly used servers, as data
    learned_policy proposes the smallest permissions of a program, from what was observed
    path_facts     what such a proposal must know about paths of this machine
    observation    prepares the observation of an extension, and its run under a proposal
    advice         suggests the missing permission or variable when an extension fails
"""
