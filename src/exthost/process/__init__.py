"""Child processes: spawning, pipes, exit, shutdown, limits, and what the file system shows them.

In reading order:

    child            one running process: its pipes, its exit status, how it is killed
    child_process    what a session needs of a process, here or on another node
    spawn_errors     why a program could not be executed, and what to do
    exit_status      how a process ended, and a descriptor that is readable once it has
    init_channel     the pipes to the first process of a namespace (`sandbox/init.c`)
    program_check    why a program could not be executed, before it is
    small_files      the beginning of a file that a package may have put there
    memory_file      files without a path, to execute or to pass on
    stdin_writer     a non-blocking writer to the child's stdin
    stdout_reader    reads the child's stdout and cuts it into frames
    large_reads      buffers for large messages
    stderr_tail      the last lines of the child's stderr
    after_fork       what a fork of our process must not use
    shutdown         runs a dialect's shutdown steps; SIGKILL is the last
    watchdog         limits over all processes of an extension, sampled
    cgroups          the same limits, enforced by the kernel
    procfs           process trees and memory, read from /proc
    sandbox_probe    which namespaces this machine allows, found by trying
    file_view        the paths that a sandboxed extension is shown
    runtimes         the files that a program needs to run
    visible_paths      the collection of paths, and the links that lead to them
    user_ids         the user that a root host runs an extension as
    environment      which variables a child gets (pure)
    host_environ     the host's own variables
    host_protection  keeps children from reading the host's memory
    state_dirs       where logs, stores and state folders are
    private_folders  creates them, with exact modes
"""
