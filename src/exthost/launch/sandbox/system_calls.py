"""The system calls that a sandboxed extension may make, by group, and their numbers.

The groups together are about the same as systemd's group `@system-service`: the calls that the
runtimes of Python, Node, Go, Rust and Java use, and the usual calls for files, processes and time.
A call that is in no group fails with ENOSYS, as if the kernel did not have it; so do calls that
later kernels add. A call in `DENIED` fails with EPERM: programs that try it expect this error when
an ordinary user runs them.

In no group, although systemd allows them:

    memfd_create, shm*, msg*, sem*, mq_*   memory that belongs to no process, so no limit counts it
    vmsplice                               pages in a pipe belong to no process, and each can be as
                                           large as 2 MB
    io_setup, io_submit and so on          the kernel limits their requests only for the whole
                                           machine, so one extension could use up all
    io_uring_*, userfaultfd, bpf           interfaces with a long record of kernel defects
    openat2, clone3                        pass flags in a struct in memory, which a filter cannot
                                           read; libraries fall back to `openat` and `clone`
"""

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["DENIED", "GROUPS", "NETWORK", "SystemCall", "calls"]


class SystemCall(NamedTuple):
    """A system call and its number on each architecture; None if the architecture does not have
    this call."""

    name: str
    x86_64: int | None
    aarch64: int | None

    def number(self, machine: str) -> int | None:
        """Return the call's number on this machine; None if it has no such call."""
        return self.x86_64 if machine == "x86_64" else self.aarch64


# The group that an extension with `network = true` has in addition.
NETWORK = "network"

# Each call with its number on x86_64 and on aarch64; "-" if the architecture does not have it.
_TABLE: Mapping[str, str] = {
    "descriptors": """
    read 0 63; write 1 64; readv 19 65; writev 20 66; pread64 17 67; pwrite64 18 68;
    preadv 295 69; pwritev 296 70; preadv2 327 286; pwritev2 328 287; lseek 8 62; close 3 57;
    close_range 436 436; dup 32 23; dup2 33 -; dup3 292 24; fcntl 72 25; flock 73 32; pipe 22 -;
    pipe2 293 59; sendfile 40 71; splice 275 76; tee 276 77;
    copy_file_range 326 285; ioctl 16 29; fadvise64 221 223; readahead 187 213
    """,
    "files": """
    open 2 -; openat 257 56; creat 85 -; access 21 -; faccessat 269 48; faccessat2 439 439;
    stat 4 -; lstat 6 -; fstat 5 80; newfstatat 262 79; statx 332 291; statfs 137 43;
    fstatfs 138 44; getdents 78 -; getdents64 217 61; getcwd 79 17; chdir 80 49; fchdir 81 50;
    readlink 89 -; readlinkat 267 78; rename 82 -; renameat 264 38; renameat2 316 276; link 86 -;
    linkat 265 37; symlink 88 -; symlinkat 266 36; unlink 87 -; unlinkat 263 35; mkdir 83 -;
    mkdirat 258 34; rmdir 84 -; mknod 133 -; mknodat 259 33; chmod 90 -; fchmod 91 52;
    fchmodat 268 53; fchmodat2 452 452; chown 92 -; fchown 93 55; lchown 94 -; fchownat 260 54;
    truncate 76 45; ftruncate 77 46; fallocate 285 47; utime 132 -; utimes 235 -;
    utimensat 280 88; futimesat 261 -; umask 95 166; getxattr 191 8; lgetxattr 192 9;
    fgetxattr 193 10; getxattrat 464 464; listxattr 194 11; llistxattr 195 12; flistxattr 196 13;
    listxattrat 465 465; setxattr 188 5; lsetxattr 189 6; fsetxattr 190 7; setxattrat 463 463;
    removexattr 197 14; lremovexattr 198 15; fremovexattr 199 16; removexattrat 466 466;
    name_to_handle_at 303 264; inotify_init 253 -; inotify_init1 294 26;
    inotify_add_watch 254 27; inotify_rm_watch 255 28; sync 162 81; syncfs 306 267; fsync 74 82;
    fdatasync 75 83; sync_file_range 277 84; cachestat 451 451
    """,
    "memory": """
    brk 12 214; mmap 9 222; munmap 11 215; mremap 25 216; mprotect 10 226; madvise 28 233;
    mincore 27 232; msync 26 227; mlock 149 228; mlock2 325 284; munlock 150 229;
    mlockall 151 230; munlockall 152 231; mseal 462 462; pkey_alloc 330 289; pkey_free 331 290;
    pkey_mprotect 329 288; remap_file_pages 216 234; get_mempolicy 239 236;
    set_mempolicy 238 237; set_mempolicy_home_node 450 450; mbind 237 235; membarrier 324 283;
    map_shadow_stack 453 453
    """,
    "processes": """
    clone 56 220; fork 57 -; vfork 58 -; execve 59 221; execveat 322 281; exit 60 93;
    exit_group 231 94; wait4 61 260; waitid 247 95; getpid 39 172; getppid 110 173;
    gettid 186 178; getpgid 121 155; getpgrp 111 -; setpgid 109 154; getsid 124 156;
    setsid 112 157; set_tid_address 218 96; set_robust_list 273 99; get_robust_list 274 100;
    rseq 334 293; prctl 157 167; arch_prctl 158 -; personality 135 92; pidfd_open 434 434;
    pidfd_send_signal 424 424; kcmp 312 272; futex 202 98; futex_waitv 449 449;
    futex_wake 454 454; futex_wait 455 455; futex_requeue 456 456; restart_syscall 219 128;
    getcpu 309 168
    """,
    "identity": """
    getuid 102 174; geteuid 107 175; getgid 104 176; getegid 108 177; getresuid 118 148;
    getresgid 120 150; getgroups 115 158; setuid 105 146; setgid 106 144; setreuid 113 145;
    setregid 114 143; setresuid 117 147; setresgid 119 149; setfsuid 122 151; setfsgid 123 152;
    setgroups 116 159; capget 125 90; capset 126 91
    """,
    "signals": """
    kill 62 129; tkill 200 130; tgkill 234 131; rt_sigaction 13 134; rt_sigpending 127 136;
    rt_sigprocmask 14 135; rt_sigqueueinfo 129 138; rt_sigreturn 15 139; rt_sigsuspend 130 133;
    rt_sigtimedwait 128 137; rt_tgsigqueueinfo 297 240; sigaltstack 131 132; signalfd 282 -;
    signalfd4 289 74; pause 34 -
    """,
    "events": """
    poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72; epoll_create 213 -;
    epoll_create1 291 20; epoll_ctl 233 21; epoll_wait 232 -; epoll_pwait 281 22;
    epoll_pwait2 441 441; eventfd 284 -; eventfd2 290 19
    """,
    "time": """
    time 201 -; gettimeofday 96 169; clock_gettime 228 113; clock_getres 229 114;
    clock_nanosleep 230 115; nanosleep 35 101; times 100 153; alarm 37 -; getitimer 36 102;
    setitimer 38 103; timer_create 222 107; timer_delete 226 111; timer_getoverrun 225 109;
    timer_gettime 224 108; timer_settime 223 110; timerfd_create 283 85; timerfd_gettime 287 87;
    timerfd_settime 286 86
    """,
    "resources": """
    getrlimit 97 163; setrlimit 160 164; prlimit64 302 261; getrusage 98 165;
    getpriority 140 141; setpriority 141 140; ioprio_get 252 31; ioprio_set 251 30;
    sched_yield 24 124; sched_getaffinity 204 123; sched_setaffinity 203 122;
    sched_getparam 143 121; sched_setparam 142 118; sched_getscheduler 145 120;
    sched_setscheduler 144 119; sched_getattr 315 275; sched_setattr 314 274;
    sched_get_priority_max 146 125; sched_get_priority_min 147 126;
    sched_rr_get_interval 148 127; sysinfo 99 179; uname 63 160; getrandom 318 278
    """,
    "sockets": """
    socketpair 53 199; sendto 44 206; sendmsg 46 211; sendmmsg 307 269; recvfrom 45 207;
    recvmsg 47 212; recvmmsg 299 243; getsockopt 55 209; setsockopt 54 208; getsockname 51 204;
    getpeername 52 205; shutdown 48 210
    """,
    "self-restriction": """
    seccomp 317 277; landlock_create_ruleset 444 444; landlock_add_rule 445 445;
    landlock_restrict_self 446 446
    """,
    "network": """
    socket 41 198; connect 42 203; bind 49 200; listen 50 201; accept 43 202; accept4 288 242
    """,
}

_DENIED = """
    keyctl 250 219; add_key 248 217; request_key 249 218; perf_event_open 298 241;
    ptrace 101 117; process_vm_readv 310 270; process_vm_writev 311 271; pidfd_getfd 438 438;
    mount 165 40; umount2 166 39; pivot_root 155 41; chroot 161 51; fsopen 430 430;
    fsconfig 431 431; fsmount 432 432; fspick 433 433; move_mount 429 429; open_tree 428 428;
    mount_setattr 442 442; setns 308 268; unshare 272 97; kexec_load 246 104;
    kexec_file_load 320 294; init_module 175 105; finit_module 313 273; delete_module 176 106;
    reboot 169 142; swapon 167 224; swapoff 168 225; acct 163 89; quotactl 179 60;
    quotactl_fd 443 443; open_by_handle_at 304 265; iopl 172 -; ioperm 173 -;
    settimeofday 164 170; clock_settime 227 112; clock_adjtime 305 266; adjtimex 159 171;
    syslog 103 116; vhangup 153 58; fanotify_init 300 262; fanotify_mark 301 263;
    sethostname 170 161; setdomainname 171 162
"""


def _parse_calls(text: str) -> tuple[SystemCall, ...]:
    entries = (entry.split() for entry in text.split(";"))
    return tuple(SystemCall(name, *map(_parse_number, numbers)) for name, *numbers in entries)


def _parse_number(text: str) -> int | None:
    return None if text == "-" else int(text)


GROUPS: Mapping[str, tuple[SystemCall, ...]] = {
    name: _parse_calls(text) for name, text in _TABLE.items()
}
DENIED = _parse_calls(_DENIED)


def calls(*, network: bool) -> tuple[SystemCall, ...]:
    """Return the calls that an extension may make, with or without network."""
    return tuple(
        call for name, group in GROUPS.items() if network or name != NETWORK for call in group
    )
