/*
 * A model server for measuring: speaks streamed Chat Completions, Responses and Messages on
 * loopback, costs little, and answers every turn with the same number of bytes.
 *
 *   bench_standin [--deltas N] [--delta-bytes N] [--tick-us N]    prints "port NNNN"
 *
 * The model name of a request chooses what is sent:
 *   contains "tools"   a call of the tool after a user message, text after a tool result
 *   contains "paced"   one event a tick, else the whole answer in one write
 *   contains "hold"    the first delta, then nothing until the client goes away
 *
 * GET /stats answers with the totals so far. Ends when its standard input does.
 */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { CHAT, RESPONSES, MESSAGES, APIS };

enum {
    READ_SPACE = 4096,
    READ_FIRST = 8192,
    BODY_MAX = 64 << 20,
    HEAD_MAX = 65536,
    EVENTS_AT_ONCE = 256
};

/* One whole response with its HTTP framing; ends[i] is where event i stops. */
struct script {
    char *bytes;
    size_t length;
    size_t capacity;
    size_t *ends;
    size_t events;
    size_t id_offset; /* where the eight digits of the call id are, 0 = none */
};

struct conn {
    int fd;
    char *in;
    size_t in_length;
    size_t in_capacity;
    char *out; /* owned copy of a script, or NULL between responses */
    size_t out_length;
    size_t out_offset;
    size_t out_limit; /* bytes allowed out so far */
    const struct script *script;
    size_t event;
    size_t paced_index; /* place in paced[], SIZE_MAX = not there */
    bool wants_write;
};

struct totals {
    unsigned long requests;
    unsigned long connections;
    unsigned long bytes_in;
    unsigned long bytes_out;
};

static struct {
    int epoll;
    int listener;
    int timer;
    bool ticking;
    long tick_us;
    struct conn **paced;
    size_t paced_count;
    size_t paced_capacity;
    struct script text[APIS];
    struct script tool[APIS];
    uint32_t next_id;
    struct totals totals;
} server;

/* Where each of them is spoken. */
static const char *const api_paths[APIS] = {
    [CHAT] = "/chat/completions HTTP/1.1\r\n",
    [RESPONSES] = "/responses HTTP/1.1\r\n",
    [MESSAGES] = "/messages HTTP/1.1\r\n",
};

/* Marks for the descriptors that are no connection. */
static char listener_mark, timer_mark, input_mark;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void *grow(void *old, size_t bytes)
{
    void *memory = realloc(old, bytes);

    if (memory == NULL) {
        die("realloc");
    }
    return memory;
}

static void script_append(struct script *script, const char *bytes, size_t length)
{
    if (script->length + length > script->capacity) {
        script->capacity = (script->length + length) * 2;
        script->bytes = grow(script->bytes, script->capacity);
    }
    memcpy(script->bytes + script->length, bytes, length);
    script->length += length;
}

static void script_event_end(struct script *script)
{
    script->ends = grow(script->ends, (script->events + 1) * sizeof(*script->ends));
    script->ends[script->events++] = script->length;
}

/* One SSE event as one HTTP chunk, the way hosted servers send them. */
static void script_event(struct script *script, const char *data)
{
    char head[32];
    size_t length = strlen("data: ") + strlen(data) + 2;
    int head_length = snprintf(head, sizeof(head), "%zx\r\n", length);

    script_append(script, head, (size_t)head_length);
    script_append(script, "data: ", 6);
    script_append(script, data, strlen(data));
    script_append(script, "\n\n\r\n", 4);
    script_event_end(script);
}

static void script_choice(struct script *script, const char *delta, const char *finish)
{
    char data[8192];

    snprintf(data, sizeof(data),
             "{\"id\":\"chatcmpl-bench01\",\"object\":\"chat.completion.chunk\","
             "\"created\":1764400000,\"model\":\"bench\",\"service_tier\":\"default\","
             "\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{%s},"
             "\"logprobs\":null,\"finish_reason\":%s}],\"usage\":null}",
             delta, finish);
    script_event(script, data);
}

static void script_begin(struct script *script)
{
    static const char head[] = "HTTP/1.1 200 OK\r\n"
                               "Content-Type: text/event-stream; charset=utf-8\r\n"
                               "Cache-Control: no-cache\r\n"
                               "Transfer-Encoding: chunked\r\n"
                               "\r\n";

    script_append(script, head, sizeof(head) - 1);
}

static void script_finish(struct script *script, const char *reason, long deltas)
{
    char data[1024];

    script_choice(script, "", reason);
    snprintf(data, sizeof(data),
             "{\"id\":\"chatcmpl-bench01\",\"object\":\"chat.completion.chunk\","
             "\"created\":1764400000,\"model\":\"bench\",\"service_tier\":\"default\","
             "\"system_fingerprint\":null,\"choices\":[],\"usage\":{\"prompt_tokens\":200,"
             "\"completion_tokens\":%ld,\"total_tokens\":%ld,\"prompt_tokens_details\":"
             "{\"cached_tokens\":0,\"audio_tokens\":0},\"completion_tokens_details\":"
             "{\"reasoning_tokens\":0,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,"
             "\"rejected_prediction_tokens\":0}}}",
             deltas, 200 + deltas);
    script_event(script, data);
    script_event(script, "[DONE]");
    script->events--;
    script_append(script, "0\r\n\r\n", 5);
    script_event_end(script);
}

static void filler(char *word, long bytes)
{
    for (long i = 0; i < bytes; i++) {
        word[i] = BENCH_FILLER[(size_t)i % (sizeof(BENCH_FILLER) - 1)];
    }
    word[bytes] = '\0';
}

static void build_text(struct script *script, long deltas, const char *word)
{
    char delta[2048];

    script_begin(script);
    script_choice(script, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null", "null");
    snprintf(delta, sizeof(delta), "\"content\":\"%s\"", word);
    for (long i = 0; i < deltas; i++) {
        script_choice(script, delta, "null");
    }
    script_finish(script, "\"stop\"", deltas);
}

/* The same number of events as the text: opening and closing of the arguments count as deltas. */
static void build_tool(struct script *script, long deltas, const char *word)
{
    static const char frame[] =
        "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"%s\"}}]";
    char delta[2048];

    script_begin(script);
    script_choice(script,
                  "\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,"
                  "\"id\":\"call_ID000000\",\"type\":\"function\",\"function\":{\"name\":"
                  "\"" BENCH_TOOL "\",\"arguments\":\"\"}}],\"refusal\":null",
                  "null");
    script->id_offset =
        (size_t)((char *)memmem(script->bytes, script->length, "call_ID", 7) - script->bytes) + 5;
    script_choice(script,
                  "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
                  "\"{\\\"" BENCH_PARAM "\\\":\\\"\"}}]",
                  "null");
    snprintf(delta, sizeof(delta), frame, word);
    for (long i = 0; i < deltas - 2; i++) {
        script_choice(script, delta, "null");
    }
    snprintf(delta, sizeof(delta), frame, "\\\"}");
    script_choice(script, delta, "null");
    script_finish(script, "\"tool_calls\"", deltas);
}

/* ---- the other two APIs: as many pieces, between the events that their servers send ---- */

/* The next event: members is what follows its type, in which the word takes the place of %s. */
static void script_named(struct script *script, const char *name, bool counted, const char *members,
                         const char *word)
{
    char number[64] = "", data[8192], head[64];
    const char *place = strstr(members, "%s");
    int before = place == NULL ? (int)strlen(members) : (int)(place - members);

    if (counted) {
        snprintf(number, sizeof(number), ",\"sequence_number\":%zu", script->events);
    }
    snprintf(data, sizeof(data), "event: %s\ndata: {\"type\":\"%s\"%s%.*s%s%s}\n\n", name, name,
             number, before, members, place == NULL ? "" : word, place == NULL ? "" : place + 2);
    script_append(script, head, (size_t)snprintf(head, sizeof(head), "%zx\r\n", strlen(data)));
    script_append(script, data, strlen(data));
    script_append(script, "\r\n", 2);
    script_event_end(script);
}

static void script_end(struct script *script)
{
    script->events--;
    script_append(script, "0\r\n\r\n", 5);
    script_event_end(script);
}

static void find_id(struct script *script)
{
    const char *at = memmem(script->bytes, script->length, "call_ID", 7);

    script->id_offset = (size_t)(at - script->bytes) + 5;
}

#define RESPONSE                                                                                   \
    ",\"response\":{\"id\":\"resp_bench01\",\"object\":\"response\",\"created_at\":1764400000,"    \
    "\"model\":\"bench\",\"status\":"
#define RESPONSE_USAGE                                                                             \
    "\"usage\":{\"input_tokens\":200,\"input_tokens_details\":{\"cached_tokens\":0},"              \
    "\"output_tokens\":40,\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":"    \
    "240}"

static void build_responses(struct script *script, long deltas, const char *word, bool call)
{
    static const char text_delta[] =
        ",\"item_id\":\"msg_bench01\",\"output_index\":0,\"content_index\":0,\"delta\":\"%s\","
        "\"logprobs\":[]";
    static const char args_delta[] =
        ",\"item_id\":\"fc_bench01\",\"output_index\":0,\"delta\":\"%s\"";
    const char *name =
        call ? "response.function_call_arguments.delta" : "response.output_text.delta";
    const char *format = call ? args_delta : text_delta;

    script_begin(script);
    script_named(script, "response.created", true, RESPONSE "\"in_progress\",\"output\":[]}", word);
    script_named(script, "response.output_item.added", true,
                 call ? ",\"output_index\":0,\"item\":{\"id\":\"fc_bench01\",\"type\":"
                        "\"function_call\",\"status\":\"in_progress\",\"arguments\":\"\","
                        "\"call_id\":\"call_ID000000\",\"name\":\"" BENCH_TOOL "\"}"
                      : ",\"output_index\":0,\"item\":{\"id\":\"msg_bench01\",\"type\":"
                        "\"message\",\"status\":\"in_progress\",\"content\":[],\"role\":"
                        "\"assistant\"}",
                 word);
    if (call) {
        find_id(script);
        script_named(script, name, true, format, "{\\\"" BENCH_PARAM "\\\":\\\"");
    }
    for (long i = call ? 2 : 0; i < deltas; i++) {
        script_named(script, name, true, format, word);
    }
    if (call) {
        script_named(script, name, true, format, "\\\"}");
    }
    script_named(script, "response.completed", true,
                 RESPONSE "\"completed\",\"output\":[]," RESPONSE_USAGE "}", word);
    script_end(script);
}

static void build_messages(struct script *script, long deltas, const char *word, bool call)
{
    const char *format = call ? ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\","
                                "\"partial_json\":\"%s\"}"
                              : ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}";
    const char *name = "content_block_delta";

    script_begin(script);
    script_named(script, "message_start", false,
                 ",\"message\":{\"id\":\"msg_bench01\",\"type\":\"message\",\"role\":"
                 "\"assistant\",\"model\":\"bench\",\"content\":[],\"stop_reason\":null,"
                 "\"stop_sequence\":null,\"usage\":{\"input_tokens\":200,\"output_tokens\":1}}",
                 word);
    script_named(script, "content_block_start", false,
                 call ? ",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":"
                        "\"call_ID000000\",\"name\":\"" BENCH_TOOL "\",\"input\":{}}"
                      : ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}",
                 word);
    if (call) {
        find_id(script);
        script_named(script, name, false, format, "{\\\"" BENCH_PARAM "\\\":\\\"");
    }
    for (long i = call ? 2 : 0; i < deltas; i++) {
        script_named(script, name, false, format, word);
    }
    if (call) {
        script_named(script, name, false, format, "\\\"}");
    }
    script_named(script, "content_block_stop", false, ",\"index\":0", word);
    script_named(script, "message_delta", false,
                 call ? ",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},"
                        "\"usage\":{\"output_tokens\":40}"
                      : ",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
                        "\"usage\":{\"output_tokens\":40}",
                 word);
    script_named(script, "message_stop", false, "", word);
    script_end(script);
}

/* ---- connections ---- */

static void watch(struct conn *conn, bool write)
{
    struct epoll_event event = { .events = write ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = conn };

    if (conn->wants_write != write) {
        conn->wants_write = write;
        epoll_ctl(server.epoll, EPOLL_CTL_MOD, conn->fd, &event);
    }
}

static void tick(bool on)
{
    struct itimerspec spec = { 0 };

    if (server.ticking == on) {
        return;
    }
    server.ticking = on;
    if (on) {
        spec.it_interval.tv_nsec = server.tick_us * 1000;
        spec.it_value = spec.it_interval;
    }
    timerfd_settime(server.timer, 0, &spec, NULL);
}

static void pace(struct conn *conn)
{
    if (server.paced_count == server.paced_capacity) {
        server.paced_capacity = server.paced_capacity * 2 + 64;
        server.paced = grow(server.paced, server.paced_capacity * sizeof(struct conn *));
    }
    conn->paced_index = server.paced_count;
    server.paced[server.paced_count++] = conn;
    tick(true);
}

static void unpace(struct conn *conn)
{
    if (conn->paced_index == SIZE_MAX) {
        return;
    }
    server.paced[conn->paced_index] = server.paced[--server.paced_count];
    server.paced[conn->paced_index]->paced_index = conn->paced_index;
    conn->paced_index = SIZE_MAX;
    if (server.paced_count == 0) {
        tick(false);
    }
}

static void conn_free(struct conn *conn)
{
    unpace(conn);
    close(conn->fd);
    free(conn->in);
    free(conn->out);
    free(conn);
}

/* Sends what is allowed out; false when the connection is gone. */
static bool conn_flush(struct conn *conn)
{
    while (conn->out != NULL && conn->out_offset < conn->out_limit) {
        ssize_t sent = send(conn->fd, conn->out + conn->out_offset,
                            conn->out_limit - conn->out_offset, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno == EAGAIN) {
            watch(conn, true);
            return true;
        }
        if (sent < 0) {
            return false;
        }
        conn->out_offset += (size_t)sent;
        server.totals.bytes_out += (size_t)sent;
    }
    watch(conn, false);
    if (conn->out != NULL && conn->out_offset == conn->out_length) {
        free(conn->out);
        conn->out = NULL;
    }
    return true;
}

static void respond_plain(struct conn *conn, const char *status, const char *body)
{
    size_t size = strlen(body) + 256;

    conn->out = grow(NULL, size);
    conn->out_length = (size_t)snprintf(conn->out, size,
                                        "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                                        "Content-Length: %zu\r\n\r\n%s",
                                        status, strlen(body), body);
    conn->out_offset = 0;
    conn->out_limit = conn->out_length;
}

static void respond_stats(struct conn *conn)
{
    const struct totals *totals = &server.totals;
    char body[256];

    snprintf(body, sizeof(body),
             "{\"requests\":%lu,\"connections\":%lu,\"bytes_in\":%lu,\"bytes_out\":%lu}",
             totals->requests, totals->connections, totals->bytes_in, totals->bytes_out);
    respond_plain(conn, "200 OK", body);
}

static bool has_word(const char *text, size_t length, const char *word)
{
    return memmem(text, length, word, strlen(word)) != NULL;
}

/*
 * Whether the last "role" key is a user's, and no result of a tool stands behind it: message texts
 * can hold neither, their quotes are escaped.
 */
static bool last_says_user(const char *body, size_t length)
{
    static const char key[] = "\"role\":";

    for (size_t i = length; i >= sizeof(key) - 1; i--) {
        const char *at = body + i - (sizeof(key) - 1);

        if (*at == '"' && memcmp(at, key, sizeof(key) - 1) == 0) {
            size_t left = length - i;

            return has_word(body + i, left < 8 ? left : 8, "\"user\"") &&
                   !has_word(body + i, left, "\"tool_result\"") &&
                   !has_word(body + i, left, "\"function_call_output\"");
        }
    }
    return true;
}

static void respond_stream(struct conn *conn, size_t api, const char *body, size_t length)
{
    const char *key = memmem(body, length, "\"model\":", 8);
    size_t left = key == NULL ? 0 : length - (size_t)(key + 8 - body);
    const char *quote = left == 0 ? NULL : memchr(key + 8, '"', left);
    const char *model = quote == NULL ? "" : quote + 1;
    size_t model_length = 0;

    if (quote != NULL) {
        left = length - (size_t)(model - body);
        const char *end = memchr(model, '"', left);

        model_length = end == NULL ? 0 : (size_t)(end - model);
    }

    bool call = has_word(model, model_length, "tools") && last_says_user(body, length);
    const struct script *script = call ? &server.tool[api] : &server.text[api];

    conn->script = script;
    conn->event = 0;
    conn->out = grow(NULL, script->length);
    memcpy(conn->out, script->bytes, script->length);
    if (script->id_offset != 0) {
        char digits[9];

        snprintf(digits, sizeof(digits), "%08x", server.next_id++);
        memcpy(conn->out + script->id_offset, digits, 8);
    }
    conn->out_length = script->length;
    conn->out_offset = 0;
    conn->out_limit = script->length;
    if (has_word(model, model_length, "hold")) {
        conn->out_limit = script->ends[1];
    } else if (has_word(model, model_length, "paced")) {
        conn->out_limit = script->ends[0];
        pace(conn);
    }
    server.totals.requests++;
}

/* ---- requests ---- */

static const char *header_value(const char *head, size_t length, const char *name)
{
    size_t name_length = strlen(name);

    for (const char *line = head; line != NULL && line + name_length < head + length;) {
        if (strncasecmp(line, name, name_length) == 0) {
            return line + name_length;
        }
        line = memchr(line, '\n', (size_t)(head + length - line));
        line = line == NULL ? NULL : line + 1;
    }
    return NULL;
}

/* Answers the request at the front of the buffer if it is whole; false = drop the connection. */
static bool conn_request(struct conn *conn)
{
    char *end = memmem(conn->in, conn->in_length, "\r\n\r\n", 4);

    if (conn->out != NULL || end == NULL) {
        return conn->out != NULL || conn->in_length < HEAD_MAX;
    }

    size_t head = (size_t)(end - conn->in) + 4;
    const char *value = header_value(conn->in, head, "content-length:");
    size_t body = value == NULL ? 0 : strtoul(value, NULL, 10);
    size_t api = CHAT;

    if (body > BODY_MAX) {
        return false;
    }
    if (conn->in_length < head + body) {
        if (conn->in_length == head && header_value(conn->in, head, "expect:") != NULL) {
            return send(conn->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL) == 25;
        }
        return true;
    }
    while (api < APIS && !has_word(conn->in, head, api_paths[api])) {
        api++;
    }
    if (memcmp(conn->in, "GET /stats ", 11) == 0) {
        respond_stats(conn);
    } else if (memcmp(conn->in, "POST ", 5) != 0 || api == APIS) {
        respond_plain(conn, "404 Not Found",
                      "{\"error\":{\"message\":\"only POST to the three APIs, and GET /stats\","
                      "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
    } else if (body == 0 || header_value(conn->in, head, "transfer-encoding:") != NULL) {
        respond_plain(conn, "411 Length Required",
                      "{\"error\":{\"message\":\"send the body with a Content-Length\","
                      "\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}");
    } else {
        respond_stream(conn, api, conn->in + head, body);
    }
    conn->in_length -= head + body;
    memmove(conn->in, conn->in + head + body, conn->in_length);
    return conn_flush(conn);
}

static bool conn_read(struct conn *conn)
{
    for (;;) {
        if (conn->in_capacity - conn->in_length < READ_SPACE) {
            conn->in_capacity = conn->in_capacity * 2 + READ_FIRST;
            conn->in = grow(conn->in, conn->in_capacity);
        }

        ssize_t got =
            recv(conn->fd, conn->in + conn->in_length, conn->in_capacity - conn->in_length, 0);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return true;
        }
        if (got <= 0) {
            return false;
        }
        conn->in_length += (size_t)got;
        server.totals.bytes_in += (size_t)got;
        if (!conn_request(conn)) {
            return false;
        }
    }
}

static void conn_ready(struct conn *conn, uint32_t events)
{
    bool alive = true;

    if (events & EPOLLOUT) {
        alive = conn_flush(conn);
    }
    if (alive && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        alive = conn_read(conn);
    }
    if (!alive) {
        conn_free(conn);
    }
}

static void accept_all(void)
{
    for (;;) {
        int fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            return;
        }

        struct conn *conn = calloc(1, sizeof(*conn));
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = conn };

        if (conn == NULL) {
            die("calloc");
        }
        conn->fd = fd;
        conn->paced_index = SIZE_MAX;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event);
        server.totals.connections++;
    }
}

/* Lets one more event of every paced stream out. */
static void on_tick(void)
{
    uint64_t ticks;

    if (read(server.timer, &ticks, sizeof(ticks)) < 0) {
        return;
    }
    for (size_t i = server.paced_count; i-- > 0;) {
        struct conn *conn = server.paced[i];

        conn->out_limit = conn->script->ends[++conn->event];
        if (conn->event + 1 == conn->script->events) {
            unpace(conn);
        }
        if (!conn_flush(conn)) {
            conn_free(conn);
        }
    }
}

static void add_mark(int fd, void *mark)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = mark };

    if (epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EPERM) {
        die("epoll_ctl");
    }
}

static void serve(void)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    char byte;

    for (;;) {
        int count = epoll_wait(server.epoll, events, EVENTS_AT_ONCE, -1);
        bool ticked = false;

        for (int i = 0; i < count; i++) {
            void *mark = events[i].data.ptr;

            if (mark == &listener_mark) {
                accept_all();
            } else if (mark == &timer_mark) {
                ticked = true;
            } else if (mark == &input_mark) {
                if (read(STDIN_FILENO, &byte, 1) <= 0) {
                    return;
                }
            } else {
                conn_ready(mark, events[i].events);
            }
        }
        if (ticked) {
            on_tick(); /* last, because it may free connections of this round */
        }
    }
}

static long listen_loopback(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof(address);

    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server.listener < 0 ||
        bind(server.listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(server.listener, 16384) != 0 ||
        getsockname(server.listener, (struct sockaddr *)&address, &length) != 0) {
        die("listen");
    }
    return ntohs(address.sin_port);
}

int main(int argc, char **argv)
{
    long deltas = 40;
    long delta_bytes = 5;
    char word[1024];
    struct rlimit limit;

    server.tick_us = 1000;
    for (int i = 1; i + 1 < argc; i += 2) {
        long *option = strcmp(argv[i], "--deltas") == 0        ? &deltas
                       : strcmp(argv[i], "--delta-bytes") == 0 ? &delta_bytes
                       : strcmp(argv[i], "--tick-us") == 0     ? &server.tick_us
                                                               : NULL;

        if (option == NULL || (*option = strtol(argv[i + 1], NULL, 10)) <= 0) {
            fprintf(stderr, "%s: not an option of this program, or not above 0\n", argv[i]);
            return 2;
        }
    }
    if (argc % 2 == 0 || deltas < 2 || delta_bytes > 1000 || server.tick_us >= 1000000) {
        fprintf(stderr, "wants pairs, --deltas of 2 or more, --delta-bytes up to 1000\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    filler(word, delta_bytes);
    build_text(&server.text[CHAT], deltas, word);
    build_tool(&server.tool[CHAT], deltas, word);
    build_responses(&server.text[RESPONSES], deltas, word, false);
    build_responses(&server.tool[RESPONSES], deltas, word, true);
    build_messages(&server.text[MESSAGES], deltas, word, false);
    build_messages(&server.tool[MESSAGES], deltas, word, true);
    server.epoll = epoll_create1(EPOLL_CLOEXEC);
    server.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    printf("port %ld\n", listen_loopback());
    fflush(stdout);
    add_mark(server.listener, &listener_mark);
    add_mark(server.timer, &timer_mark);
    add_mark(STDIN_FILENO, &input_mark);
    serve();
    return 0;
}
