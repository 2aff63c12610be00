/* The child that bench/ talks to: one JSON line in, one JSON line out, as little work as possible.
 *
 *   echo               a morphir extension: `initialize` -> {}, `capabilities` -> a list of one,
 *                      `big` with a number N -> a string of N bytes, anything else -> its params
 *   echo --schema      the same, and its tool has a schema for its arguments
 *   echo --raw         sends every byte back, lines or not
 *   echo --mcp         an MCP server of the handshake era with one tool, which gives back the `text`
 *                      of its arguments; for any client's order of members. With --mcp-headers the
 *                      same in frames of Content-Length
 *   echo --nexo        a nexo extension with the same tool, and with two hooks, which it answers with
 *                      null
 *   echo --cigen       a cigen plugin: introduces itself, then answers plans and generates in turn
 *   echo --limit N H C the limit no host can beat: starts itself as a child, plays N rounds of a
 *                      100-byte line with it from core H to core C (-1 = not pinned), and prints
 *                      the nanoseconds a round
 *
 * It ends at end of input. It holds no JSON parser: it relies on exthost's member order, id,
 * method, params, with params last. A line without such an id is reported on stderr and not answered.
 *
 * Cost is linear in the bytes: the search for the newline never looks at a byte twice, the buffer
 * doubles, small answers of one read leave in one write, and a large one is written from where it
 * was read.
 */
#define _GNU_SOURCE
#include <errno.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a default pipe holds: a larger read has nothing more to find there. */
#define READ_BYTES 65536
/* From here on copying an answer costs more than a second system call. */
#define LARGE_BYTES 32768
/* An id stands at the start of its line or nowhere. */
#define HEAD_BYTES 4096

static char *out;
static size_t out_used, out_room;
static int mcp_headers, with_schema;

#define SCHEMA                                                                       \
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}"

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static char *room_for(char *buffer, size_t *room, size_t wanted) {
    if (wanted <= *room) return buffer;
    size_t grown = *room ? *room : READ_BYTES;
    while (grown < wanted) grown *= 2;
    buffer = realloc(buffer, grown);
    if (!buffer) fail("realloc");
    *room = grown;
    return buffer;
}

static void send_all(struct iovec *part, int parts) {
    while (parts) {
        ssize_t sent = writev(STDOUT_FILENO, part, parts);
        if (sent < 0) {
            if (errno == EINTR) continue;
            exit(errno == EPIPE ? 0 : 1);
        }
        while (parts && (size_t)sent >= part->iov_len) {
            sent -= (ssize_t)part->iov_len;
            part++, parts--;
        }
        if (parts) {
            part->iov_base = (char *)part->iov_base + sent;
            part->iov_len -= (size_t)sent;
        }
    }
}

static void flush_out(void) {
    if (!out_used) return;
    struct iovec all = {out, out_used};
    out_used = 0;
    send_all(&all, 1);
}

static void put(const char *bytes, size_t count) {
    out = room_for(out, &out_room, out_used + count);
    memcpy(out + out_used, bytes, count);
    out_used += count;
}

/* {"id":ID,"result":BODY} */
static void answer(const char *id, size_t id_size, const char *body, size_t body_size) {
    put("{\"id\":", 6);
    put(id, id_size);
    put(",\"result\":", 10);
    if (body_size < LARGE_BYTES) {
        put(body, body_size);
        put("}\n", 2);
        return;
    }
    struct iovec parts[3] = {
        {out, out_used}, {(char *)body, body_size}, {(char *)"}\n", 2}};
    out_used = 0;
    send_all(parts, 3);
}

static void answer_big(const char *id, size_t id_size, const char *count_text) {
    size_t count = strtoull(count_text, NULL, 10);
    char *text = malloc(count + 2);
    if (!text) fail("malloc");
    memset(text, 'x', count + 2);
    text[0] = text[count + 1] = '"';
    answer(id, id_size, text, count + 2);
    free(text);
}

/* Just after `"name":` and any blanks, or NULL. */
static const char *member(const char *from, const char *end, const char *quoted_name) {
    size_t size = strlen(quoted_name);
    const char *at = memmem(from, (size_t)(end - from), quoted_name, size);
    if (!at) return NULL;
    at += size;
    while (at < end && (*at == ' ' || *at == ':')) at++;
    return at;
}

static int is(const char *text, size_t size, const char *word) {
    return size == strlen(word) && memcmp(text, word, size) == 0;
}

/* One line, without its newline. There is always a byte after it, so strtoull stops. */
static void serve(const char *line, size_t size) {
    const char *end = line + size;
    const char *head = size > HEAD_BYTES ? line + HEAD_BYTES : end;
    const char *id = member(line, head, "\"id\"");
    const char *id_end = id;
    while (id_end && id_end < head && *id_end >= '0' && *id_end <= '9') id_end++;
    const char *method = id ? member(id_end, head, "\"method\"") : NULL;
    const char *method_end = NULL;
    if (method && method < head && *method == '"') {
        method++;
        method_end = memchr(method, '"', (size_t)(head - method));
    }
    if (!method_end || id_end == id) {
        fprintf(stderr, "echo: not a request: %.*s\n", (int)(size < 80 ? size : 80), line);
        return;
    }
    const char *params = member(method_end, head, "\"params\"");
    size_t id_size = (size_t)(id_end - id), method_size = (size_t)(method_end - method);

    if (is(method, method_size, "initialize")) {
        answer(id, id_size, "{}", 2);
    } else if (is(method, method_size, "capabilities")) {
        static const char plain[] = "[{\"name\":\"echo\",\"description\":\"Returns its params\"}]";
        static const char checked[] =
            "[{\"name\":\"echo\",\"description\":\"Returns its params\",\"params_schema\":" SCHEMA "}]";
        answer(id, id_size, with_schema ? checked : plain,
               with_schema ? sizeof checked - 1 : sizeof plain - 1);
    } else if (params && is(method, method_size, "big")) {
        answer_big(id, id_size, params);
    } else if (params && params < end) {
        do end--;
        while (end > params && *end != '}');
        answer(id, id_size, params, (size_t)(end - params));
    } else {
        answer(id, id_size, "null", 4);
    }
}

/* {"jsonrpc":"2.0","id":ID, and a body that ends the object */
static void answer_mcp(const char *id, size_t id_size, const char *body, size_t body_size) {
    char head[64];
    if (mcp_headers)
        put(head, (size_t)sprintf(head, "Content-Length: %zu\r\n\r\n", id_size + body_size + 22));
    put("{\"jsonrpc\":\"2.0\",\"id\":", 22);
    put(id, id_size);
    put(body, body_size);
    if (!mcp_headers) put("\n", 1);
}

/* A text or a number as it stands, up to what ends it. */
static size_t scalar(const char *from, const char *end) {
    const char *at = from;
    if (at < end && *at == '"') {
        const char *close = memchr(at + 1, '"', (size_t)(end - at - 1));
        return close ? (size_t)(close + 1 - from) : 0;
    }
    while (at < end && *at != ',' && *at != '}') at++;
    return (size_t)(at - from);
}

/* A result of MCP with the `text` of the arguments. */
static void answer_echo(const char *line, const char *end, const char *id, size_t id_size) {
    static const char before[] = ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":";
    static char body[HEAD_BYTES];
    const char *text = member(line, end, "\"text\"");
    size_t text_size = text ? scalar(text, end) : 0;
    if (text_size + sizeof before + 8 > sizeof body) fail("a text that long");
    memcpy(body, before, sizeof before - 1);
    memcpy(body + sizeof before - 1, text, text_size);
    memcpy(body + sizeof before - 1 + text_size, "}]}}", 4);
    answer_mcp(id, id_size, body, sizeof before - 1 + text_size + 4);
}

static void serve_mcp(const char *line, size_t size) {
    static const char hello[] =
        ",\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},"
        "\"serverInfo\":{\"name\":\"c\",\"version\":\"1\"}}}";
    static const char tools[] =
        ",\"result\":{\"tools\":[{\"name\":\"echo\",\"inputSchema\":" SCHEMA "}]}}";
    static const char unknown[] = ",\"error\":{\"code\":-32601,\"message\":\"unknown\"}}";
    const char *end = line + size;
    const char *id = member(line, end, "\"id\""), *method = member(line, end, "\"method\"");
    if (!id || !method) return; /* a notification */
    size_t id_size = scalar(id, end), method_size = scalar(method, end);
    if (is(method, method_size, "\"tools/call\"")) {
        answer_echo(line, end, id, id_size);
    } else if (is(method, method_size, "\"initialize\"")) {
        answer_mcp(id, id_size, hello, sizeof hello - 1);
    } else if (is(method, method_size, "\"tools/list\"")) {
        answer_mcp(id, id_size, tools, sizeof tools - 1);
    } else {
        answer_mcp(id, id_size, unknown, sizeof unknown - 1);
    }
}

/* Its host sends integers as ids; `initialize` has the id 0. */
static void serve_nexo(const char *line, size_t size) {
    static const char hello[] =
        ",\"result\":{\"server_version\":\"1\",\"hooks\":[\"before_tool_call\",\"after_tool_call\"],"
        "\"tools\":[{\"name\":\"echo\",\"description\":\"\",\"input_schema\":" SCHEMA "}]}}";
    static const char nothing[] = ",\"result\":null}";
    const char *end = line + size;
    const char *id = member(line, end, "\"id\""), *method = member(line, end, "\"method\"");
    if (!id || !method) return; /* a notification */
    size_t id_size = scalar(id, end), method_size = scalar(method, end);
    if (is(method, method_size, "\"tools/call\""))
        answer_echo(line, end, id, id_size);
    else if (is(method, method_size, "\"initialize\""))
        answer_mcp(id, id_size, hello, sizeof hello - 1);
    else
        answer_mcp(id, id_size, nothing, sizeof nothing - 1);
}

/* The end of the frame that begins at `from`, and where its payload begins; NULL for not yet. */
static char *frame_end(char *from, size_t size, char **payload) {
    char *blank = memmem(from, size, "\r\n\r\n", 4);
    const char *length = blank ? member(from, blank, "Content-Length") : NULL;
    if (!length) return NULL;
    *payload = blank + 4;
    char *end = *payload + strtoull(length, NULL, 10);
    return end <= from + size ? end : NULL;
}

static int serve_frames(void) {
    char *in = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        in = room_for(in, &room, used + READ_BYTES);
        ssize_t got = read(STDIN_FILENO, in + used, READ_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0;
        used += (size_t)got;
        char *at = in, *payload, *end;
        while ((end = frame_end(at, used - (size_t)(at - in), &payload))) {
            serve_mcp(payload, (size_t)(end - payload));
            at = end;
        }
        flush_out();
        used -= (size_t)(at - in);
        memmove(in, at, used);
    }
}

static int serve_lines(void (*serve)(const char *, size_t)) {
    char *in = NULL;
    size_t used = 0, room = 0, searched = 0;
    for (;;) {
        in = room_for(in, &room, used + READ_BYTES);
        ssize_t got = read(STDIN_FILENO, in + used, READ_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0;
        used += (size_t)got;
        size_t start = 0;
        char *newline;
        while ((newline = memchr(in + searched, '\n', used - searched))) {
            size_t stop = (size_t)(newline - in);
            serve(in + start, stop - start);
            start = searched = stop + 1;
        }
        flush_out();
        if (start) memmove(in, in + start, used - start);
        used -= start;
        searched = used;
    }
}

static int serve_bytes(void) {
    static char block[READ_BYTES];
    for (;;) {
        ssize_t got = read(STDIN_FILENO, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0;
        struct iovec all = {block, (size_t)got};
        send_all(&all, 1);
    }
}

static void pin(int core) {
#ifdef __linux__
    if (core < 0) return;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores)) fail("sched_setaffinity");
#else
    (void)core;
#endif
}

static int ping(long rounds, int host_core, int child_core, char *program) {
    int to[2], from[2];
    if (pipe(to) || pipe(from)) fail("pipe");
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (!child) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        pin(child_core);
        execl(program, program, (char *)NULL);
        fail("exec");
    }
    close(to[0]), close(from[1]);
    pin(host_core);
    char line[101], reply[READ_BYTES];
    memset(line, 'x', sizeof line);
    static const char head[] = "{\"id\":7,\"method\":\"echo\",\"params\":\"", tail[] = "\"}\n";
    memcpy(line, head, sizeof head - 1);
    memcpy(line + 100 - (sizeof tail - 1), tail, sizeof tail - 1);
    struct timespec before, after;
    for (long i = -rounds / 10 - 1; i < rounds; i++) {
        if (i == 0) clock_gettime(CLOCK_MONOTONIC, &before);
        if (write(to[1], line, 100) != 100) fail("write");
        char last = 0;
        while (last != '\n') {
            ssize_t got = read(from[0], reply, sizeof reply);
            if (got <= 0) fail("read");
            last = reply[got - 1];
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    close(to[1]);
    waitpid(child, NULL, 0);
    double took = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    printf("%.1f\n", took / (double)rounds);
    return 0;
}

static int read_all(unsigned char *into, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t more = read(STDIN_FILENO, into + got, size - got);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return 0;
        got += (size_t)more;
    }
    return 1;
}

/* Its three answers, framed: PluginInfo{"provider/c", protocol 1, ["provider:c"]}, a PlanResult of
 * one resource {"a", JOB}, a GenerateResult of one fragment {"a.yml", "x: 1\n", REPLACE, "yaml"}. */
static int serve_cigen(void) {
    static unsigned char info[] = "\0\0\0\x1a\x0a\x0aprovider/c\x18\x01\x22\x0aprovider:c";
    static unsigned char plan[] = "\0\0\0\x07\x0a\x05\x0a\x01" "a\x10\x01";
    static unsigned char made[] =
        "\0\0\0\x18\x0a\x16\x0a\x05" "a.yml\x12\x05x: 1\x0a\x18\x01\x2a\x04yaml";
    struct iovec answers[] = {
        {info, sizeof info - 1}, {plan, sizeof plan - 1}, {made, sizeof made - 1}};
    unsigned char head[4];
    size_t room = 0;
    for (int position = 0; read_all(head, 4); position = position == 1 ? 2 : 1) {
        size_t size = (size_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
        out = room_for(out, &room, size);
        if (!read_all((unsigned char *)out, size)) return 1;
        struct iovec answer = answers[position];
        send_all(&answer, 1);
    }
    return 0;
}

int main(int count, char **words) {
    signal(SIGPIPE, SIG_IGN);
    if (count == 2 && !strcmp(words[1], "--raw")) return serve_bytes();
    if (count == 2 && !strcmp(words[1], "--cigen")) return serve_cigen();
    if (count == 2 && !strcmp(words[1], "--schema")) with_schema = 1;
    if (count == 2 && !strcmp(words[1], "--nexo")) return serve_lines(serve_nexo);
    if (count == 2 && !strcmp(words[1], "--mcp")) return serve_lines(serve_mcp);
    if (count == 2 && !strcmp(words[1], "--mcp-headers")) return mcp_headers = 1, serve_frames();
    if (count == 5 && !strcmp(words[1], "--limit"))
        return ping(atol(words[2]), atoi(words[3]), atoi(words[4]), words[0]);
    return serve_lines(serve);
}
