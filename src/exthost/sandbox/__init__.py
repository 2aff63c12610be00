"""From a policy and what this machine supports to a launch plan. Pure.

In reading order:

    strict         the wrapper for an extension with permissions: all namespaces, a list of mounts
    pid_namespace  the wrapper for `lifetime = "tree"`: a PID namespace and nothing else
    seccomp        the filter of system calls for `strict`
    system_calls   the allowed system calls, by group, and their numbers
    limits         resource limits of the kernel, and the ceiling over all processes
    cgroup         where cgroups can be made, and their settings
    probe_result   the programs that were found, and whether a sandbox works here
    initcode       the compiled first process of a namespace (`init.c`); generated
"""
