"""Child processes: spawning, pipes, exit, shutdown and limits.

In reading order:

    child            one running process: its pipes, its exit status, how it is killed
    child_process    the interface of a process for a session; it may run on another node
    build_command    how the program of a project is built (pure)
    spawn_errors     turns the error of a failed spawn into one that names cause and remedy
    exit_status      how a process ended, and a file descriptor that is readable once it has
    init_channel     the pipes to the first process of a namespace (`launch/sandbox/init.c`)
    network_proxy    the host's end of the proxy by which a process reaches the hosts of its list
    proxy_server     that proxy, a process of its own
    splicer          the proxy's end of a process that moves large transfers (`splicer.c`)
    splicer_process  starts that process
    splicercode      that process, compiled; generated
    program_check    checks a program before a wrapper executes it
    small_files      reads the beginning of a file that is not trusted
    private_mounts   starts a process where another user can reach files in closed folders
    memory_file      files in memory, without a path
    pipe_ends        the host's ends of the pipes; for another node they have no descriptors
    stdin_writer     a non-blocking writer to the child's stdin
    stdout_reader    reads the child's stdout and cuts it into frames
    stdout_loan      lets other threads read the child's stdout for a while
    large_reads      buffers for large messages
    large_frame_queue  lets the readers inside a large frame take turns
    stderr_reader    reads the child's stderr
    flood_budget     how much output may serve no call before it is a flood (pure)
    flood_queue      lets the pipes with a flood take turns
    stderr_tail      the last lines of the child's stderr
    after_fork       takes pipes and processes away from a forked copy of the host
    shutdown         runs a dialect's shutdown steps; SIGKILL is the last
    template         a Python process from which processes of extensions are forked
    copied_pages     which pages of its template's memory a process has copied
    template_program the program of a template, which the interpreter of an extension runs
    watchdog         enforces limits for all processes of an extension together, by sampling
    resource_limits  limits of the kernel for each process, and for all together (pure)
    cgroups          creates cgroups, in which the kernel enforces the same limits
    cgroup_rules     where cgroups can be created, and what is written to their files (pure)
    procfs           process trees, memory and processor time, read from /proc
    processor_time   the processor time of an extension, with processes that have ended
    extension_memory the memory of an extension, with what its processes share
    user_ids         the user that a root host runs an extension as
    user_registry    remembers that user, so that no two extensions have the same
    environment      which environment variables an extension gets (pure)
    own_process      the host's own process: its variables and working folder
    access_observer  observes which files a program uses, and which addresses it connects to
    observed_program the script that puts the filter of the observer on a program
    landlocked_program  the script that puts Landlock and a seccomp filter on a program
    dns_answers      reads the answers of name servers (pure)
    host_protection  prevents other processes of the user from reading the host's memory
    state_root       the folder of all files of the host
    state_dirs       the paths of logs, stores and state folders
    private_folders  creates folders of the host with exact modes
    service_notify   reports the state of the host to systemd
"""
