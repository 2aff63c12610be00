/* Moves the bytes of large transfers from one socket to another, for the proxy of a sandboxed
 * process (`proxy_server.py`). The kernel moves them through a pipe (`splice`), without copying
 * them. It uses no library, so that it starts fast and needs little memory. `make init` builds it
 * for each architecture and writes the result to splicercode.toml.
 *
 *   splicer        stdin is a Unix socket to the proxy, with packets (SOCK_SEQPACKET)
 *
 * A packet from the proxy is a number of 32 bits, with two descriptors: the source and the target of
 * one direction of a connection. Both are non-blocking. The answer is a packet of two numbers of 32
 * bits, the same number and one of enum outcome, when both descriptors are closed here. The proxy
 * has copies of them, and passes the end of the source on.
 *
 * The program exits when the proxy closes its end, or ends. Then the kernel closes everything here,
 * and no connection outlives the proxy.
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/signal.h>

typedef unsigned long word;

#if defined(__x86_64__)
static long call(long number, word a, word b, word c, word d, word e, word f)
{
    long result;
    register word r10 __asm__("r10") = d;
    register word r8 __asm__("r8") = e;
    register word r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start:\n\tand $-16,%rsp\n\tcall run\n\thlt\n");
#elif defined(__aarch64__)
static long call(long number, word a, word b, word c, word d, word e, word f)
{
    register long x8 __asm__("x8") = number;
    register word x0 __asm__("x0") = a;
    register word x1 __asm__("x1") = b;
    register word x2 __asm__("x2") = c;
    register word x3 __asm__("x3") = d;
    register word x4 __asm__("x4") = e;
    register word x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return (long)x0;
}
__asm__(".globl _start\n_start:\n\tbl run\n\tbrk #1\n");
#else
#error "write call() and _start for this architecture"
#endif

/* How much is moved at a time. With more, the data would leave the cache of the processor. */
#define PIPE_BYTES (256 * 1024)
/* Two for each connection that a proxy has at most. */
#define MAX_DIRECTIONS 2000
#define EVENTS 64
#define CHANNEL 0
#define NOTHING (-1)

/* Not in the headers of the kernel for programs. */
#define SPLICE_FLAGS (1 | 2) /* SPLICE_F_MOVE, SPLICE_F_NONBLOCK */
#define MESSAGE_DONTWAIT 0x40
#define MESSAGE_NOSIGNAL 0x4000
#define SET_PIPE_SIZE 1031
#define SIGNAL_SET_BYTES 8
/* Two sockets and a pipe for each direction, and a few for this process. */
#define WANTED_FILES (MAX_DIRECTIONS * 4 + 64)

enum outcome { ENDED, FAILED, NOT_TAKEN };

/* Exactly one descriptor of a direction is watched at a time: the source while the pipe is empty,
 * the target while it is not. So there is at most one event of a direction in a list of events. */
struct direction {
    int is_used, source, target, read_end, write_end, watched;
    unsigned number;
    word in_pipe;
};

struct message {
    word name, name_length, data, data_count, control, control_length, flags;
};
struct control {
    word length;
    int level, type, descriptors[2];
};

/* What the kernel calls struct sigaction. */
struct action {
    word handler, flags, restorer, mask;
};

static struct direction directions[MAX_DIRECTIONS];
static word poller;

static void end(int code)
{
    for (;;)
        call(__NR_exit_group, (word)code, 0, 0, 0, 0, 0);
}

static void close_descriptor(int fd)
{
    if (fd >= 0)
        call(__NR_close, (word)fd, 0, 0, 0, 0, 0);
}

static long control_poller(word operation, int fd, unsigned events, struct direction *direction)
{
    struct epoll_event event;
    event.events = events;
    event.data = (word)direction;
    return call(__NR_epoll_ctl, poller, operation, (word)fd, (word)&event, 0, 0);
}

/* Waits for the proxy if it is slow to read: it never waits for this process. */
static void answer(unsigned number, unsigned outcome)
{
    unsigned numbers[2] = {number, outcome};
    long sent;
    while ((sent = call(__NR_sendto, CHANNEL, (word)numbers, sizeof numbers, MESSAGE_NOSIGNAL, 0, 0))
           == -EINTR)
        ;
    if (sent < 0)
        end(0);
}

static void finish(struct direction *direction, unsigned outcome)
{
    /* Copies of these descriptors are open elsewhere, so closing does not end the watch. */
    if (direction->watched != NOTHING)
        control_poller(EPOLL_CTL_DEL, direction->watched, 0, 0);
    close_descriptor(direction->source);
    close_descriptor(direction->target);
    close_descriptor(direction->read_end);
    close_descriptor(direction->write_end);
    direction->is_used = 0;
    answer(direction->number, outcome);
}

static void watch(struct direction *direction, int fd, unsigned events)
{
    if (direction->watched == fd)
        return;
    if (direction->watched != NOTHING)
        control_poller(EPOLL_CTL_DEL, direction->watched, 0, 0);
    direction->watched = NOTHING;
    if (control_poller(EPOLL_CTL_ADD, fd, events, direction) < 0)
        finish(direction, FAILED);
    else
        direction->watched = fd;
}

static long move(int from, int to, word count)
{
    return call(__NR_splice, (word)from, 0, (word)to, 0, count, SPLICE_FLAGS);
}

/* Moves what there is, once, so that all directions take turns. */
static void advance(struct direction *direction)
{
    long count;
    if (!direction->in_pipe) {
        count = move(direction->source, direction->write_end, PIPE_BYTES);
        if (count == -EAGAIN || count == -EINTR)
            return;
        if (count <= 0) {
            finish(direction, count ? FAILED : ENDED);
            return;
        }
        direction->in_pipe = (word)count;
    }
    while (direction->in_pipe) {
        count = move(direction->read_end, direction->target, direction->in_pipe);
        if (count == -EAGAIN || count == -EINTR) {
            watch(direction, direction->target, EPOLLOUT);
            return;
        }
        if (count <= 0) {
            finish(direction, FAILED);
            return;
        }
        direction->in_pipe -= (word)count;
    }
    watch(direction, direction->source, EPOLLIN);
}

static struct direction *find_free(void)
{
    for (word i = 0; i < MAX_DIRECTIONS; i++)
        if (!directions[i].is_used)
            return &directions[i];
    return 0;
}

static void start(unsigned number, int source, int target)
{
    int ends[2];
    struct direction *direction = find_free();
    if (!direction || source < 0 || target < 0
        || call(__NR_pipe2, (word)ends, O_NONBLOCK | O_CLOEXEC, 0, 0, 0, 0) < 0) {
        close_descriptor(source);
        close_descriptor(target);
        answer(number, NOT_TAKEN);
        return;
    }
    /* This fails if the user has many pages in pipes. A small pipe works as well. */
    call(__NR_fcntl, (word)ends[1], SET_PIPE_SIZE, PIPE_BYTES, 0, 0, 0);
    direction->is_used = 1;
    direction->number = number;
    direction->source = source;
    direction->target = target;
    direction->read_end = ends[0];
    direction->write_end = ends[1];
    direction->watched = NOTHING;
    direction->in_pipe = 0;
    watch(direction, source, EPOLLIN);
}

/* Takes one direction from the proxy. Without room for both descriptors the kernel passes fewer. */
static void take(void)
{
    unsigned number = 0;
    word data[2] = {(word)&number, sizeof number};
    struct control control;
    control.length = 0;
    control.descriptors[0] = control.descriptors[1] = NOTHING;
    struct message message = {0, 0, (word)data, 1, (word)&control, sizeof control, 0};
    long count = call(__NR_recvmsg, CHANNEL, (word)&message, MESSAGE_DONTWAIT, 0, 0, 0);
    if (count == -EAGAIN || count == -EINTR)
        return;
    if (count != sizeof number)
        end(0);
    start(number, control.descriptors[0], control.descriptors[1]);
}

/* Raises the number of descriptors that this process may have. */
static void raise_limit(void)
{
    word limit[2] = {0, 0};
    call(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, (word)limit, 0, 0);
    if (limit[0] >= WANTED_FILES)
        return;
    limit[0] = limit[1] < WANTED_FILES ? limit[1] : WANTED_FILES;
    call(__NR_prlimit64, 0, RLIMIT_NOFILE, (word)limit, 0, 0, 0);
}

__attribute__((used)) void run(void)
{
    static struct epoll_event events[EVENTS];
    /* Nothing of the host must stay open here. */
    if (call(__NR_close_range, 1, ~0u, 0, 0, 0, 0) < 0)
        for (int fd = 1; fd < 1024; fd++)
            close_descriptor(fd);
    call(__NR_prctl, PR_SET_NAME, (word)"exthost-splicer", 0, 0, 0, 0);
    struct action ignore = {(word)SIG_IGN, 0, 0, 0};
    call(__NR_rt_sigaction, SIGPIPE, (word)&ignore, 0, SIGNAL_SET_BYTES, 0, 0);
    raise_limit();
    long created = call(__NR_epoll_create1, 0, 0, 0, 0, 0, 0);
    if (created < 0)
        end(125);
    poller = (word)created;
    if (control_poller(EPOLL_CTL_ADD, CHANNEL, EPOLLIN, 0) < 0)
        end(125);
    for (;;) {
        long count = call(__NR_epoll_pwait, poller, (word)events, EVENTS, (word)-1, 0, SIGNAL_SET_BYTES);
        for (long i = 0; i < count; i++) {
            struct direction *direction = (struct direction *)(word)events[i].data;
            if (direction)
                advance(direction);
            else
                take();
        }
    }
}
