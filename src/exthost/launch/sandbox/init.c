/* The first process of an extension's PID namespace. It starts the program, reaps processes,
 * passes signals on, and exits when the program exits or when the host is gone. When it exits, the
 * kernel kills every process in the namespace. It uses no library, so that it starts fast and runs
 * in any root. `make init` builds it for each architecture and writes the result to initcode.toml.
 *
 *   init CONTROL,STATUS,STDIN,STDOUT,KEEP_PWD,MAKE,GROUP,PATHS,PID_MAX,PROXY,HOLD,UNDER,JOIN,
 *        OUTER,VIEW[,RESOURCE,SOFT,HARD]... PROGRAM [ARGUMENT]...
 *
 * CONTROL  read end: each byte is the number of a signal for the program's process group. End of
 *          file means that the host is gone or wants the program killed. 0 if there is no
 *          namespace: then this process only executes the program.
 * STATUS   write end: native 32-bit integers: -errno if the program could not be executed; then
 *          the program's wait status, its processor time in milliseconds, and its pid inside.
 * MAKE     1: make the namespace, with its own /proc, and wait outside until it has ended;
 *          0: another program made it, and this is its first process;
 *          2: only reset signals, and execute the program with all descriptors open. Bubblewrap
 *          needs that under a host that ignores SIGCHLD: it would wait forever for its child.
 * GROUP    cgroup.procs of the program's own cgroup, opened by the host, or 0. The program enters
 *          it before it is executed; this process stays outside.
 * PATHS    a file with a list of paths, or 0: "MAJOR,MINOR,INODE,PATH" for each, with a zero byte
 *          at its end. If another file is at one of them, the program is not executed, and STATUS
 *          gets -ESTALE. The mounts are made by now, so nothing outside can replace a file there.
 * PID_MAX  pids outside are smaller than this. See start_with_pid.
 * PROXY    a Unix socket to the proxy of the network, or 0. A socket that listens on the loopback
 *          address of this network namespace is sent over it, before the program is executed.
 * HOLD     1: keep the namespace when the program has ended, because others are below it.
 * UNDER    a pidfd of the first process of a template's namespace, or 0. The namespace of this
 *          program is made below that one, so that processes of the template can join it.
 * JOIN     a socket to a process that was forked from the template, or 0. That process joins the
 *          namespace and becomes the program. If it does not, the program is executed here.
 * OUTER    the user namespace that made the mounts of the template's sandbox, or 0. It is entered
 *          first, and then this program is executed again, without this number.
 * VIEW     the private file systems of a sandbox, or 0. The program then runs in a copy of the
 *          template's sandbox; see make_sandbox. Nothing is executed here: if no process joins, or
 *          something else fails, STATUS gets -EAGAIN.
 * STDIN and STDOUT are other descriptors than 0 and 1, because the wrapper outside keeps its own 0
 * and 1 open, which would hide that the program closed one.
 *
 * Nothing here asks to be killed when the parent dies: the kernel means the thread that started
 * us, which may end long before the host. End of file on CONTROL does it.
 */
#include <asm/unistd.h>
#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/mount.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/time.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/signal.h>
#include <linux/socket.h>
#include <linux/stat.h>
#include <linux/wait.h>

typedef unsigned long word;

#if defined(__x86_64__)
static long call(long number, word a, word b, word c, word d, word e)
{
    long result;
    register word r10 __asm__("r10") = d;
    register word r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n\tmov %rsp,%rdi\n\tand $-16,%rsp\n\tcall run\n\thlt\n");
#elif defined(__aarch64__)
static long call(long number, word a, word b, word c, word d, word e)
{
    register long x8 __asm__("x8") = number;
    register word x0 __asm__("x0") = a;
    register word x1 __asm__("x1") = b;
    register word x2 __asm__("x2") = c;
    register word x3 __asm__("x3") = d;
    register word x4 __asm__("x4") = e;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory");
    return (long)x0;
}
__asm__(".globl _start\n_start:\n\tmov x0,sp\n\tbl run\n\tbrk #1\n");
#else
#error "write call() and _start for this architecture"
#endif

#define SIGNAL_SET_BYTES 8
/* The kernel gives no process a smaller pid once its counter has reached the largest one. */
#define RESERVED_PIDS 300
/* 2^32 divided by the golden ratio: the multiples of it, modulo 2^32, are far apart. */
#define GOLDEN_RATIO 2654435769ul
/* For wait4: any child. For signalfd4: a new descriptor. */
#define ANY ((word)-1)

/* The port of the proxy: that of most HTTP proxies. `strict.PROXY_PORT` has the same number. */
#define PROXY_PORT 3128
/* How many connections wait to be accepted; the kernel has a lower limit. */
#define PROXY_BACKLOG 4096
/* Not in the headers of the kernel for programs. */
#define SOCKET_FAMILY 2
#define SOCKET_STREAM 1
#define SOCKET_LEVEL 1
#define SEND_DESCRIPTORS 1
#define MNT_DETACH 2
/* How long a process of the template may take to join. Forking takes milliseconds. */
#define JOIN_SECONDS 10
/* How many paths below private file systems can be mounted again. */
#define MAX_TREES 1024

enum {
    CONTROL, STATUS, STDIN, STDOUT, KEEP_PWD, MAKE, GROUP, PATHS, PID_MAX, PROXY, HOLD, UNDER,
    JOIN, OUTER, VIEW, FIXED
};
enum { MAKE_NOTHING, MAKE_NAMESPACE, ONLY_EXECUTE };

/* What the kernel calls struct sigaction; all zero is the default action. */
struct action {
    word handler, flags, restorer, mask;
};

static void end(int code)
{
    for (;;)
        call(__NR_exit_group, (word)code, 0, 0, 0, 0);
}

static word number(char **text)
{
    word value = 0;
    while (**text >= '0' && **text <= '9')
        value = value * 10 + (word)(*(*text)++ - '0');
    if (**text == ',')
        (*text)++;
    return value;
}

static void tell(word fd, int status)
{
    call(__NR_write, fd, (word)&status, sizeof status, 0, 0);
}

static word append(char *text, word length, const char *more)
{
    while (*more)
        text[length++] = *more++;
    return length;
}

static word append_number(char *text, word length, word value)
{
    char digits[24];
    word count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        text[length++] = digits[--count];
    return length;
}

static void fail(const char *what, long error)
{
    char text[128];
    word length = append(text, 0, what);
    length = append_number(text, append(text, length, ": errno "), (word)-error);
    length = append(text, length, "\n");
    call(__NR_write, 2, (word)text, length, 0, 0);
    end(125);
}

static long put(word folder, const char *file, const char *text, word length)
{
    long fd = call(__NR_openat, folder, (word)file, O_WRONLY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return fd;
    long written = call(__NR_write, (word)fd, (word)text, length, 0, 0);
    call(__NR_close, (word)fd, 0, 0, 0, 0);
    return written;
}

/* Writes "ID ID 1": this user has the same id inside, and there are no others. */
static long keep(word proc, const char *file, word id)
{
    char text[64];
    word length = append(text, append_number(text, 0, id), " ");
    length = append(text, append_number(text, length, id), " 1");
    return put(proc, file, text, length);
}

/* Keeps user and group of this process in its new user namespace. `proc` is the folder /proc. */
static long keep_user(word proc, word uid, word gid)
{
    put(proc, "self/setgroups", "deny", 4);
    long refused = keep(proc, "self/uid_map", uid);
    return refused < 0 ? refused : keep(proc, "self/gid_map", gid);
}

/* Waits for a process with all descriptors closed, so that this process does not hide that the
 * program closed one. Exits as that process did. */
static void wait_outside(long first)
{
    int status = 0;
    if (call(__NR_close_range, 0, ~0u, 0, 0, 0) < 0)
        for (word fd = 0; fd < 1024; fd++)
            call(__NR_close, fd, 0, 0, 0, 0);
    while (call(__NR_wait4, (word)first, (word)&status, 0, 0, 0) == -EINTR)
        ;
    end(status & 0x7f ? 128 + (status & 0x7f) : status >> 8 & 0xff);
}

/* Mounts a /proc with the pids of this namespace. Later mounts outside are visible inside, and not
 * the other way round. */
static void mount_proc(void)
{
    long refused;
    if ((refused = call(__NR_mount, 0, (word)"/", 0, MS_REC | MS_SLAVE, 0)) < 0
        || (refused = call(__NR_mount, (word)"proc", (word)"/proc", (word)"proc",
                           MS_NOSUID | MS_NODEV | MS_NOEXEC, 0)) < 0)
        fail("no /proc could be had in a namespace", refused);
}

/* Enters the namespaces of a template: its user namespace, if it is another one, and its PID
 * namespace, in which only new processes can be. Returns in such a process. If the template has ended,
 * nothing is entered: then no process joins, and the program is executed. Returns whether another
 * user namespace was entered. */
static int enter_template(word under)
{
    int is_other_user = 1;
    long refused = call(__NR_setns, under, CLONE_NEWUSER | CLONE_NEWPID, 0, 0, 0);
    if (refused == -EINVAL) { /* the user namespace is that of this process */
        refused = call(__NR_setns, under, CLONE_NEWPID, 0, 0, 0);
        is_other_user = 0;
    }
    if (refused < 0)
        return 0;
    long first = call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (first < 0)
        fail("no process could be started", first);
    if (first > 0)
        wait_outside(first);
    call(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* Who enters a user namespace cannot be traced any more, and who joins must be able to. */
    call(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    call(__NR_close, under, 0, 0, 0, 0);
    return is_other_user;
}

/* Returns in the first process of a new PID namespace: the pid of the process outside, which only
 * waits for it. */
static word make_namespace(word under)
{
    word outside = (word)call(__NR_getpid, 0, 0, 0, 0, 0);
    /* Who joins from the template's user namespace has rights only in one below it. */
    int needs_user = under && enter_template(under);
    word uid = (word)call(__NR_geteuid, 0, 0, 0, 0, 0);
    word gid = (word)call(__NR_getegid, 0, 0, 0, 0, 0);
    word flags = CLONE_NEWPID | CLONE_NEWNS | (needs_user ? CLONE_NEWUSER : 0);
    long first = call(__NR_clone, SIGCHLD | flags, 0, 0, 0, 0);
    if (first == -EPERM) {
        flags |= CLONE_NEWUSER;
        first = call(__NR_clone, SIGCHLD | flags, 0, 0, 0, 0);
    }
    if (first < 0)
        fail("no PID namespace could be made", first);
    if (first > 0)
        wait_outside(first);
    /* The parent is the process above, which has one thread. */
    call(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    long refused = 0;
    if (flags & CLONE_NEWUSER) {
        long proc = call(__NR_openat, (word)AT_FDCWD, (word)"/proc", O_PATH | O_CLOEXEC, 0, 0);
        if ((refused = keep_user((word)proc, uid, gid)) < 0)
            fail("no user could be kept in a namespace", refused);
        call(__NR_close, (word)proc, 0, 0, 0, 0);
    }
    call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    mount_proc();
    return outside;
}

/* In a new namespace pids begin at 1. But programs of several namespaces share /tmp and other
 * folders, where many put files that are named after their pid. So the program gets the pid of the
 * process outside, which no other program of this host has while that process lives. Those that the
 * program starts get pids from another place for each namespace: these do not exclude each other,
 * but are far apart. Returns the program's pid, 0 in the program itself. A kernel that refuses the
 * choice chooses the pid. */
static long start_with_pid(word outside, word pid_max)
{
    if (pid_max > RESERVED_PIDS) {
        char text[32];
        word place = (outside * GOLDEN_RATIO & 0xffffffff) * (pid_max - RESERVED_PIDS) >> 32;
        put((word)AT_FDCWD, "/proc/sys/kernel/ns_last_pid", text,
            append_number(text, 0, RESERVED_PIDS + place));
    }
    int pid = (int)outside;
    static struct clone_args choice; /* not on the stack: clearing it there would take a library */
    choice.exit_signal = SIGCHLD;
    choice.set_tid = (word)&pid;
    choice.set_tid_size = 1;
    long program = call(__NR_clone3, (word)&choice, sizeof choice, 0, 0, 0);
    return program < 0 ? call(__NR_clone, SIGCHLD, 0, 0, 0, 0) : program;
}

/* The wrapper sets PWD; it is removed for a program that was not given one. */
static void drop_pwd(char **environment)
{
    char **to = environment;
    for (char **from = environment; *from; from++) {
        char *one = *from;
        if (!(one[0] == 'P' && one[1] == 'W' && one[2] == 'D' && one[3] == '='))
            *to++ = one;
    }
    *to = 0;
}

static void fail_start(word status_fd, long error)
{
    tell(status_fd, (int)error);
    end(126);
}

/* Moves a process into a cgroup; 0 is this process. */
static void enter(word group, word pid, word status_fd)
{
    char text[24];
    long refused = call(__NR_write, group, (word)text, append_number(text, 0, pid), 0, 0);
    if (refused < 0)
        fail_start(status_fd, refused);
}

/* Whether this is the file at a path: its device and its inode. */
static int is_at(word major, word minor, word inode, const char *path)
{
    struct statx found;
    long refused = call(__NR_statx, (word)AT_FDCWD, (word)path, AT_SYMLINK_NOFOLLOW, STATX_INO,
                        (word)&found);
    return refused == 0 && found.stx_dev_major == major && found.stx_dev_minor == minor
           && found.stx_ino == inode;
}

static char list[256 * 1024];

/* Reads a file to `list`, and closes it. Returns its end. */
static char *read_list(word fd, word status_fd)
{
    word length = 0;
    long count;
    while (length < sizeof list - 1
           && (count = call(__NR_read, fd, (word)(list + length), sizeof list - 1 - length, 0, 0)) > 0)
        length += (word)count;
    if (length == sizeof list - 1)
        fail_start(status_fd, -E2BIG);
    call(__NR_close, fd, 0, 0, 0, 0);
    return list + length;
}

static char *after(char *text)
{
    while (*text++)
        ;
    return text;
}

static void check_paths(word fd, word status_fd, long replaced)
{
    char *end = read_list(fd, status_fd);
    for (char *text = list; text < end; text = after(text)) {
        word major = number(&text), minor = number(&text), inode = number(&text);
        if (!is_at(major, minor, inode, text))
            fail_start(status_fd, replaced);
    }
}

/* Makes the folders above a path. */
static void make_parents(const char *path)
{
    static char folder[4096];
    for (word i = 0; path[i] && i < sizeof folder - 1; i++) {
        folder[i] = path[i];
        folder[i + 1] = 0;
        if (i && path[i + 1] == '/')
            call(__NR_mkdirat, (word)AT_FDCWD, (word)folder, 0755, 0, 0);
    }
}

/* Mounts a copy of a mounted file or folder at a path, which is created. */
static long mount_tree(word tree, const char *path)
{
    struct statx found;
    long refused = call(__NR_statx, tree, (word)"", AT_EMPTY_PATH, STATX_TYPE, (word)&found);
    if (refused < 0)
        return refused;
    make_parents(path);
    if ((found.stx_mode & S_IFMT) == S_IFDIR)
        call(__NR_mkdirat, (word)AT_FDCWD, (word)path, 0755, 0, 0);
    else
        call(__NR_mknodat, (word)AT_FDCWD, (word)path, S_IFREG | 0444, 0, 0);
    refused = call(__NR_move_mount, tree, (word)"", (word)AT_FDCWD, (word)path,
                   MOVE_MOUNT_F_EMPTY_PATH);
    call(__NR_close, tree, 0, 0, 0, 0);
    return refused;
}

/* Mounts the private file systems of a sandbox, empty, over those of the template. The list has, in
 * the order of bubblewrap's options:
 *
 *   tOPTIONS 0 PATH 0   a private file system in memory
 *   bPATH 0             a path in one that is mounted from elsewhere, and is mounted there again
 *   lTARGET 0 PATH 0    a symbolic link in one
 *   dPATH 0             a folder in one
 */
static long make_private(word fd, word status_fd)
{
    static int trees[MAX_TREES];
    char *end = read_list(fd, status_fd);
    word count = 0, next = 0;
    long refused = 0;
    /* What is mounted in them is opened first, because they will be hidden. */
    for (char *text = list; text < end; text = after(text)) {
        char kind = *text++;
        if (kind == 'b' && count == MAX_TREES)
            return -E2BIG;
        if (kind == 'b')
            trees[count++] = (int)call(__NR_open_tree, (word)AT_FDCWD, (word)text,
                                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE, 0, 0);
        else if (kind != 'd')
            text = after(text);
    }
    word mask = (word)call(__NR_umask, 0, 0, 0, 0, 0);
    for (char *text = list; text < end && refused >= 0; text = after(text)) {
        char kind = *text++, *argument = text;
        if (kind == 'b') {
            /* A path that was not there when the template was started is not there now. */
            int tree = trees[next++];
            refused = tree == -ENOENT ? 0 : tree < 0 ? tree : mount_tree((word)tree, text);
            continue;
        }
        if (kind == 'd') {
            make_parents(text);
            call(__NR_mkdirat, (word)AT_FDCWD, (word)text, 0755, 0, 0);
            continue;
        }
        text = after(text);
        make_parents(text);
        if (kind == 'l')
            call(__NR_symlinkat, (word)argument, (word)AT_FDCWD, (word)text, 0, 0);
        else {
            call(__NR_mkdirat, (word)AT_FDCWD, (word)text, 0755, 0, 0);
            refused = call(__NR_mount, (word)"tmpfs", (word)text, (word)"tmpfs",
                           MS_NOSUID | MS_NODEV, (word)argument);
        }
    }
    call(__NR_umask, mask, 0, 0, 0, 0);
    return refused;
}

/* Enters the user namespace that made the mounts of the template's sandbox, and executes this
 * program again. The kernel remembers where a program was executed: from now on the host can
 * trace this process, and code in the template, which has no rights in that namespace, cannot. */
static void enter_outer(word *fixed, char *outer, char **words, char **environment)
{
    long refused = call(__NR_setns, fixed[OUTER], CLONE_NEWUSER, 0, 0, 0);
    if (refused < 0)
        fail_start(fixed[STATUS], -EAGAIN);
    while (*outer >= '0' && *outer <= '9')
        *outer++ = '0';
    call(__NR_execve, (word)words[0], (word)words, (word)environment, 0, 0);
    fail_start(fixed[STATUS], -EAGAIN);
}

/* Enters the network of the template: /proc/1/net shows that of this process to everyone. A template
 * with the network of the host, which cannot be entered from here, is in that of this process. `proc`
 * is the /proc of the host; the other one is by now that of the template. */
static long enter_network(word proc, word under)
{
    struct statx ours, theirs;
    long refused = call(__NR_setns, under, CLONE_NEWNET, 0, 0, 0);
    if (refused != -EPERM)
        return refused;
    if (call(__NR_statx, proc, (word)"self/ns/net", 0, STATX_INO, (word)&ours) < 0
        || call(__NR_statx, (word)AT_FDCWD, (word)"/proc/1/ns/net", 0, STATX_INO, (word)&theirs) < 0)
        return refused;
    return ours.stx_ino == theirs.stx_ino ? 0 : refused;
}

/* Makes a copy of the template's sandbox: the same files, except that the private file systems are
 * empty, and new PID, IPC and user namespaces. Returns in its first process.
 *
 * Code in the template is as hostile as the extension. So nothing here ever sees more files than
 * the template, except this process until it enters the mount namespace, and this process is not
 * in the template's PID namespace. The new user namespace is below that of the template: the
 * owner of a namespace has all rights in it from above, and a process of the template needs them to
 * join. In the new user namespace there are no mounts of its own but the private ones and /proc,
 * which is read-only. The network is that of the template. */
static void make_sandbox(word *fixed)
{
    static const char *const covers[] = {
        "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"};
    word status_fd = fixed[STATUS], under = fixed[UNDER];
    call(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    long proc = call(__NR_openat, (word)AT_FDCWD, (word)"/proc", O_PATH | O_CLOEXEC, 0, 0);
    if (proc < 0 || call(__NR_setns, under, CLONE_NEWNS | CLONE_NEWPID, 0, 0, 0) < 0
        || enter_network((word)proc, under) < 0
        || call(__NR_unshare, CLONE_NEWNS, 0, 0, 0, 0) < 0
        || call(__NR_mount, 0, (word)"/", 0, MS_REC | MS_PRIVATE, 0) < 0
        || call(__NR_mount, (word)"devpts", (word)"/dev/pts", (word)"devpts", MS_NOSUID | MS_NOEXEC,
                (word)"newinstance,ptmxmode=0666,mode=620") < 0) /* terminals are private, too */
        fail_start(status_fd, -EAGAIN);
    /* Another /proc can only be mounted where the mounted one is not covered. It is read-only. */
    for (word i = 0; i < sizeof covers / sizeof *covers; i++)
        while (call(__NR_umount2, (word)covers[i], MNT_DETACH, 0, 0, 0) == 0)
            ;
    long refused = call(__NR_setns, under, CLONE_NEWUSER, 0, 0, 0);
    if (refused < 0 && refused != -EINVAL) /* -EINVAL: the namespace is that of this process */
        fail_start(status_fd, -EAGAIN);
    word uid = (word)call(__NR_geteuid, 0, 0, 0, 0, 0);
    word gid = (word)call(__NR_getegid, 0, 0, 0, 0, 0);
    if (call(__NR_unshare, CLONE_NEWUSER, 0, 0, 0, 0) < 0 || keep_user((word)proc, uid, gid) < 0)
        fail_start(status_fd, -EAGAIN);
    call(__NR_close, (word)proc, 0, 0, 0, 0);
    call(__NR_close, under, 0, 0, 0, 0);
    /* The first process is in the PID namespace of the template, the second one in a new one. */
    for (word flags = 0;; flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) {
        long first = call(__NR_clone, SIGCHLD | flags, 0, 0, 0, 0);
        if (first < 0)
            fail_start(status_fd, -EAGAIN);
        if (first > 0)
            wait_outside(first);
        call(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (flags)
            break;
    }
    call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (call(__NR_mount, (word)"proc", (word)"/proc", (word)"proc",
             MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, 0) < 0
        || make_private(fixed[VIEW], status_fd) < 0)
        fail_start(status_fd, -EAGAIN);
}

/* A copy of a descriptor, out of the way of 0, 1 and 3, which are about to be replaced. */
static word moved(word fd, word status_fd)
{
    long copy = call(__NR_fcntl, fd, F_DUPFD, 4, 0, 0);
    if (copy < 0)
        fail_start(status_fd, copy);
    return (word)copy;
}

/* The message of one byte with a descriptor, as the kernel reads it. */
struct descriptor_message {
    word name, name_length, data, data_count, control, control_length, flags;
};
struct descriptor_control {
    word length;
    int level, type, descriptors[4];
};
#define CONTROL_LENGTH(count) (sizeof(word) + 2 * sizeof(int) + (count) * sizeof(int))

/* Sends one byte with descriptors. */
static long send_descriptors(word channel, struct descriptor_control *control, word count)
{
    char byte = 1;
    word data[2] = {(word)&byte, 1};
    control->length = CONTROL_LENGTH(count);
    control->level = SOCKET_LEVEL;
    control->type = SEND_DESCRIPTORS;
    struct descriptor_message message = {
        0, 0, (word)data, 1, (word)control, (control->length + 7) & ~7ul, 0};
    return call(__NR_sendmsg, channel, (word)&message, 0, 0, 0);
}

static void open_proxy(word channel, word status_fd)
{
    struct sockaddr_in address;
    char *raw = (char *)&address;
    for (word i = 0; i < sizeof address; i++)
        raw[i] = 0;
    address.sin_family = SOCKET_FAMILY;
    address.sin_port = (unsigned short)(PROXY_PORT >> 8 | (PROXY_PORT & 0xff) << 8);
    address.sin_addr.s_addr = 0x0100007f;
    long listener = call(__NR_socket, SOCKET_FAMILY, SOCKET_STREAM | O_CLOEXEC, 0, 0, 0);
    if (listener < 0)
        fail_start(status_fd, listener);
    long refused = call(__NR_bind, (word)listener, (word)&address, sizeof address, 0, 0);
    if (refused < 0 || (refused = call(__NR_listen, (word)listener, PROXY_BACKLOG, 0, 0, 0)) < 0)
        fail_start(status_fd, refused);
    struct descriptor_control control;
    control.descriptors[0] = (int)listener;
    if ((refused = send_descriptors(channel, &control, 1)) < 0)
        fail_start(status_fd, refused);
    /* The message now holds the listening socket. When the host closes its end, it is closed. */
    call(__NR_close, (word)listener, 0, 0, 0, 0);
    call(__NR_close, channel, 0, 0, 0, 0);
}

static void become(word *fixed, char *limits, char **program, char **environment, word mask)
{
    call(__NR_setsid, 0, 0, 0, 0, 0);
    if (fixed[GROUP])
        enter(fixed[GROUP], 0, fixed[STATUS]);
    word in = moved(fixed[STDIN], fixed[STATUS]);
    word out = moved(fixed[STDOUT], fixed[STATUS]);
    word status = moved(fixed[STATUS], fixed[STATUS]);
    call(__NR_dup3, in, 0, 0, 0, 0);
    call(__NR_dup3, out, 1, 0, 0, 0);
    call(__NR_dup3, status, 3, O_CLOEXEC, 0, 0);
    if (call(__NR_close_range, 4, ~0u, 0, 0, 0) < 0)
        for (word fd = 4; fd < 1024; fd++)
            call(__NR_close, fd, 0, 0, 0, 0);
    while (*limits) {
        word resource = number(&limits);
        word pair[2];
        pair[0] = number(&limits);
        pair[1] = number(&limits);
        long refused = call(__NR_prlimit64, 0, resource, (word)pair, 0, 0);
        if (refused < 0)
            fail_start(3, refused);
    }
    if (!fixed[KEEP_PWD])
        drop_pwd(environment);
    call(__NR_rt_sigprocmask, SIG_SETMASK, (word)&mask, 0, SIGNAL_SET_BYTES, 0);
    tell(3, (int)call(__NR_execve, (word)program[0], (word)program, (word)environment, 0, 0));
    end(127);
}

/* Sends the namespaces that a process of the template must join to be in this sandbox. */
static long send_namespaces(word join)
{
    static const char *const names[] = {
        "/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/ns/ipc", "/proc/self/ns/pid"};
    struct descriptor_control control;
    for (word i = 0; i < 4; i++) {
        long fd = call(__NR_openat, (word)AT_FDCWD, (word)names[i], O_RDONLY | O_CLOEXEC, 0, 0);
        if (fd < 0)
            return fd;
        control.descriptors[i] = (int)fd;
    }
    long sent = send_descriptors(join, &control, 4);
    for (word i = 0; i < 4; i++)
        call(__NR_close, (word)control.descriptors[i], 0, 0, 0, 0);
    return sent;
}

/* Lets a process of the template become the program. Returns its pid; 0 if none joins in time,
 * or if the other end says so. The process waits for the answer, so there is one program. */
static word adopt(word *fixed)
{
    word join = fixed[JOIN];
    char ready = 1;
    int program = 0;
    struct pollfd seen[2] = {{(int)join, POLLIN, 0}, {(int)fixed[CONTROL], 0, 0}};
    struct __kernel_timespec limit = {JOIN_SECONDS, 0};
    if (fixed[VIEW])
        send_namespaces(join);
    else
        call(__NR_write, join, (word)&ready, 1, 0, 0);
    call(__NR_ppoll, (word)seen, 2, (word)&limit, 0, SIGNAL_SET_BYTES);
    if (seen[1].revents)
        end(137);
    if (!seen[0].revents
        || call(__NR_read, join, (word)&program, sizeof program, 0, 0) != sizeof program
        || program < 0)
        program = 0;
    if (program && fixed[GROUP])
        enter(fixed[GROUP], (word)program, fixed[STATUS]);
    if (program && call(__NR_write, join, (word)&ready, 1, 0, 0) != 1)
        program = 0;
    call(__NR_close, join, 0, 0, 0, 0);
    return (word)program;
}

static void pass_on(word control, word program)
{
    unsigned char signals[64];
    long count = call(__NR_read, control, (word)signals, sizeof signals, 0, 0);
    if (count <= 0)
        end(137);
    for (long i = 0; program && i < count; i++)
        if (call(__NR_kill, -program, signals[i], 0, 0, 0) < 0)
            call(__NR_kill, program, signals[i], 0, 0, 0); /* it has no process group yet */
}

/* Returns the pid of the program; 0 if it has ended and the namespace is kept. */
static word reap_children(word status_fd, word program, word hold)
{
    int status;
    long pid;
    struct rusage used;
    while ((pid = call(__NR_wait4, ANY, (word)&status, WNOHANG, (word)&used, 0)) > 0)
        if ((word)pid == program) {
            long seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
            long micros = used.ru_utime.tv_usec + used.ru_stime.tv_usec;
            tell(status_fd, status);
            tell(status_fd, (int)(seconds * 1000 + micros / 1000));
            tell(status_fd, (int)program);
            if (!hold)
                end(status & 0x7f ? 128 + (status & 0x7f) : status >> 8 & 0xff);
            program = 0;
        }
    return program;
}

__attribute__((used)) void run(word *stack)
{
    word count = stack[0];
    char **words = (char **)(stack + 1);
    char **environment = words + count + 1;
    if (count < 3)
        end(125);
    char *settings = words[1];
    word fixed[FIXED];
    char *outer = 0;
    for (int i = 0; i < FIXED; i++) {
        outer = i == OUTER ? settings : outer;
        fixed[i] = number(&settings);
    }

    /* A host may have inherited SIGCHLD ignored. Then no exit would ever be reported here. */
    struct action action = {0, 0, 0, 0};
    call(__NR_rt_sigaction, SIGCHLD, (word)&action, 0, SIGNAL_SET_BYTES, 0);
    if (fixed[MAKE] == ONLY_EXECUTE) {
        call(__NR_execve, (word)words[2], (word)(words + 2), (word)environment, 0, 0);
        end(127);
    }
    call(__NR_prctl, PR_SET_NAME, (word)"exthost-init", 0, 0, 0);
    if (fixed[OUTER])
        enter_outer(fixed, outer, words, environment);
    word outside = 0;
    if (fixed[VIEW])
        make_sandbox(fixed);
    else if (fixed[MAKE] == MAKE_NAMESPACE)
        outside = make_namespace(fixed[UNDER]);
    if (fixed[PATHS])
        check_paths(fixed[PATHS], fixed[STATUS], fixed[VIEW] ? -EAGAIN : -ESTALE);
    if (fixed[PROXY])
        open_proxy(fixed[PROXY], fixed[STATUS]);
    /* Who joins must be able to trace us, so this is before the next call. */
    word joined = fixed[JOIN] ? adopt(fixed) : 0;
    if (fixed[VIEW] && !joined)
        fail_start(fixed[STATUS], -EAGAIN);
    /* Other processes here have our uid, and must not be able to trace us. The program is not
     * affected once it is executed. A namespace that we made for a template stays open to the
     * host, which may be an ordinary user. */
    if (!(fixed[HOLD] && outside))
        call(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    word children = 1ul << (SIGCHLD - 1), before = 0;
    call(__NR_rt_sigprocmask, SIG_BLOCK, (word)&children, (word)&before, SIGNAL_SET_BYTES, 0);
    if (!fixed[CONTROL])
        become(fixed, settings, words + 2, environment, before);
    long deaths = call(__NR_signalfd4, ANY, (word)&children, SIGNAL_SET_BYTES,
                       O_CLOEXEC | O_NONBLOCK, 0);
    long program = joined ? (long)joined
                   : outside ? start_with_pid(outside, fixed[PID_MAX])
                             : call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (deaths < 0 || program < 0) {
        tell(fixed[STATUS], (int)(deaths < 0 ? deaths : program));
        end(125);
    }
    if (program == 0)
        become(fixed, settings, words + 2, environment, before);
    call(__NR_close, fixed[STDIN], 0, 0, 0, 0);
    call(__NR_close, fixed[STDOUT], 0, 0, 0, 0);
    for (;;) {
        struct pollfd seen[2] = {{(int)fixed[CONTROL], POLLIN, 0}, {(int)deaths, POLLIN, 0}};
        call(__NR_ppoll, (word)seen, 2, 0, 0, SIGNAL_SET_BYTES);
        if (seen[1].revents) {
            char information[128];
            call(__NR_read, (word)deaths, (word)information, sizeof information, 0, 0);
            program = (long)reap_children(fixed[STATUS], (word)program, fixed[HOLD]);
        }
        if (seen[0].revents)
            pass_on(fixed[CONTROL], (word)program);
    }
}
