"""Builds sandboxes, as data: command lines, system call filters.

The package does no I/O: `process` reads the state of the machine and starts processes, `launch`
combines the values from here into a launch plan. In reading order:

    strict         the sandbox of an extension with permissions: all namespaces, a list of mounts
    pid_namespace  the wrapper for `lifetime = "tree"`: a PID namespace and nothing else
    landlock       a weaker sandbox for machines without user namespaces
    seccomp        the system call filter of the strict sandbox
    observed_calls the filter that reports system calls to an observer
    system_calls   the allowed system calls, by group, and their numbers
    initcode       our init, the first process of a namespace (`init.c`), compiled; generated
"""
