/*
 * The floor: libcurl alone moves the bytes of an agent's turns, with nothing parsed but the status.
 *
 *   --mode turns     conversations of --turns requests, --concurrency at a time
 *   --mode history   CPU per turn around turns 10, 100 and so on up to --turns
 *   --mode request   one request, for the clock of startup.c
 *   --mode init      libcurl loaded and initialised, one byte sent by a plain socket
 * --hold N first opens N streams that stay open; the figures then stand beside them.
 */
#include "bench.h"
#include "workload.h"

#include <curl/curl.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

struct conversation {
    struct client *client;
    CURL *easy;
    char *body;
    size_t messages_end; /* where the next message goes; the tail follows */
    size_t length;
    size_t capacity;
    long turn;
    long turns;
    size_t got;
    bool held;
};

struct client {
    const struct bench_args *args;
    CURLM *multi;
    int epoll;
    double deadline_us; /* of libcurl's timer, 0 = none */
    struct curl_slist *headers;
    char url[64];
    char *text;      /* what the stand-in answers, as it stands in the next request */
    char *arguments; /* the same for a call */
    long to_start;
    long running;
    long held_started; /* held streams whose first bytes are in */
    long requests;
    size_t bytes;
    bool failed;
};

static void out_of_memory(void)
{
    fputs("out of memory\n", stderr);
    exit(1);
}

static void body_append(struct conversation *conversation, const char *text)
{
    size_t length = strlen(text);

    if (conversation->length + length + 1 > conversation->capacity) {
        conversation->capacity = (conversation->length + length + 1) * 2;
        conversation->body = realloc(conversation->body, conversation->capacity);
        if (conversation->body == NULL) {
            out_of_memory();
        }
    }
    memcpy(conversation->body + conversation->length, text, length + 1);
    conversation->length += length;
}

/* Adds messages behind those already there and closes the body again. */
static void body_messages(struct conversation *conversation, const char *messages)
{
    static const char tail[] =
        "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" BENCH_TOOL "\","
        "\"description\":\"" BENCH_TOOL_ABOUT "\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"" BENCH_PARAM "\":{\"type\":\"string\",\"description\":"
        "\"" BENCH_PARAM_ABOUT "\"}},\"required\":[\"" BENCH_PARAM "\"],"
        "\"additionalProperties\":false}}}],\"tool_choice\":\"auto\"}";

    conversation->length = conversation->messages_end;
    body_append(conversation, messages);
    conversation->messages_end = conversation->length;
    body_append(conversation, tail);
}

static void body_begin(struct conversation *conversation, const char *model)
{
    conversation->messages_end = 0;
    conversation->length = 0;
    body_append(conversation, "{\"model\":\"");
    body_append(conversation, model);
    body_append(conversation, "\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
                              "\"messages\":[{\"role\":\"system\",\"content\":"
                              "\"" BENCH_INSTRUCTIONS "\"}");
    conversation->messages_end = conversation->length;
    body_messages(conversation, ",{\"role\":\"user\",\"content\":\"" BENCH_PROMPT "\"}");
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *userdata)
{
    struct conversation *conversation = userdata;

    (void)bytes;
    if (conversation->held && conversation->got == 0) {
        conversation->client->held_started++;
    }
    conversation->got += size * count;
    return size * count;
}

static void send_request(struct conversation *conversation)
{
    CURL *easy = conversation->easy;

    conversation->got = 0;
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, conversation->body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)conversation->length);
    curl_multi_add_handle(conversation->client->multi, easy);
}

static struct conversation *conversation_new(struct client *client, const char *model)
{
    struct conversation *conversation = calloc(1, sizeof(*conversation));

    if (conversation == NULL || (conversation->easy = curl_easy_init()) == NULL) {
        out_of_memory();
    }
    conversation->client = client;
    conversation->turns = client->args->turns;
    body_begin(conversation, model);
    curl_easy_setopt(conversation->easy, CURLOPT_URL, client->url);
    curl_easy_setopt(conversation->easy, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(conversation->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(conversation->easy, CURLOPT_WRITEDATA, conversation);
    curl_easy_setopt(conversation->easy, CURLOPT_PRIVATE, conversation);
    curl_easy_setopt(conversation->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(conversation->easy, CURLOPT_PROXY, "");
    return conversation;
}

static void conversation_free(struct conversation *conversation)
{
    curl_multi_remove_handle(conversation->client->multi, conversation->easy);
    curl_easy_cleanup(conversation->easy);
    free(conversation->body);
    free(conversation);
}

/* Makes the transcript longer by what this turn said; the call id has the real one's length. */
static void append_turn(struct conversation *conversation)
{
    static const char call[] =
        ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_00000000\","
        "\"type\":\"function\",\"function\":{\"name\":\"" BENCH_TOOL "\",\"arguments\":\"%s\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"call_00000000\",\"content\":\"" BENCH_RESULT "\"}";
    static const char text[] = ",{\"role\":\"assistant\",\"content\":\"%s\"},"
                               "{\"role\":\"user\",\"content\":\"" BENCH_PROMPT "\"}";
    struct client *client = conversation->client;
    bool tools = strstr(client->args->model, "tools") != NULL;
    bool was_call = tools && conversation->turn % 2 == 1;
    size_t size = strlen(client->text) + strlen(client->arguments) + sizeof(call);
    char *messages = malloc(size);

    if (messages == NULL) {
        out_of_memory();
    }
    if (was_call) {
        snprintf(messages, size, call, client->arguments);
    } else {
        snprintf(messages, size, text, client->text);
    }
    body_messages(conversation, messages);
    free(messages);
}

static void on_done(struct client *client, CURL *easy, CURLcode code)
{
    struct conversation *conversation = NULL;
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &conversation);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(client->multi, easy);
    if (code != CURLE_OK || status != 200 || conversation->got == 0) {
        fprintf(stderr, "request failed: %s, HTTP %ld\n", curl_easy_strerror(code), status);
        client->failed = true;
        return;
    }
    client->requests++;
    client->bytes += conversation->got;
    conversation->turn++;
    if (conversation->turn < conversation->turns) {
        append_turn(conversation);
        send_request(conversation);
        return;
    }
    client->running--;
    if (client->to_start > 0) {
        client->to_start--;
        client->running++;
        conversation->turn = 0;
        body_begin(conversation, client->args->model);
        send_request(conversation);
        return;
    }
    conversation_free(conversation);
}

/* ---- the event loop, as libcurl's documentation asks for it ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *known)
{
    struct client *client = userdata;
    struct epoll_event event = { .data.fd = fd };

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(client->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    event.events |= what & CURL_POLL_IN ? EPOLLIN : 0u;
    event.events |= what & CURL_POLL_OUT ? EPOLLOUT : 0u;
    epoll_ctl(client->epoll, known == NULL ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
    curl_multi_assign(client->multi, fd, client);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *userdata)
{
    struct client *client = userdata;

    (void)multi;
    client->deadline_us = timeout_ms < 0 ? 0 : bench_wall_us() + (double)timeout_ms * 1e3;
    return 0;
}

static void reap(struct client *client)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        on_done(client, message->easy_handle, message->data.result);
    }
}

static void loop_once(struct client *client)
{
    struct epoll_event events[256];
    int running;
    int timeout = -1;

    if (client->deadline_us != 0) {
        double left = client->deadline_us - bench_wall_us();

        timeout = left <= 0 ? 0 : (int)(left / 1e3) + 1;
    }

    int count = epoll_wait(client->epoll, events, 256, timeout);

    for (int i = 0; i < count; i++) {
        int flags = (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                    (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                    (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);

        curl_multi_socket_action(client->multi, events[i].data.fd, flags, &running);
    }
    if (client->deadline_us != 0 && bench_wall_us() >= client->deadline_us) {
        client->deadline_us = 0;
        curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    reap(client);
}

/* ---- what is measured ---- */

static void run_conversations(struct client *client, long count)
{
    long at_once = count < client->args->concurrency ? count : client->args->concurrency;

    client->to_start = count - at_once;
    for (long i = 0; i < at_once; i++) {
        client->running++;
        send_request(conversation_new(client, client->args->model));
    }
    while (client->running > 0 && !client->failed) {
        loop_once(client);
    }
}

static struct conversation **hold_streams(struct client *client)
{
    long count = client->args->hold;
    struct conversation **held = calloc((size_t)count + 1, sizeof(*held));
    /* A few first, so that what libcurl needs once is not counted a stream. */
    long before = 0;

    if (held == NULL) {
        out_of_memory();
    }
    for (long i = 0; i < count && !client->failed; i++) {
        held[i] = conversation_new(client, "bench-hold");
        held[i]->held = true;
        send_request(held[i]);
        if (i == 9 || i % 64 == 63 || i == count - 1) {
            while (client->held_started <= i && !client->failed) {
                loop_once(client);
            }
        }
        if (i == 9) {
            before = bench_rss_kib();
        }
    }
    if (count > 10) {
        printf("\"held_kib_each\":%.2f,",
               (double)(bench_rss_kib() - before) / (double)(count - 10));
    }
    return held;
}

static void measure_turns(struct client *client)
{
    run_conversations(client, client->args->warmup);
    client->requests = 0;
    client->bytes = 0;

    struct bench_mark start = bench_now();

    run_conversations(client, client->args->runs);

    struct bench_mark spent = bench_since(start);
    double turns = client->requests == 0 ? 1 : (double)client->requests;

    printf("\"turns\":%ld,\"bytes\":%zu,\"cpu_us_per_turn\":%.2f,\"wall_us_per_turn\":%.2f",
           client->requests, client->bytes, spent.cpu_us / turns, spent.wall_us / turns);
}

/* CPU of one turn in the tenth of a conversation around its turn number middle. */
static double around_turn(struct client *client, long middle)
{
    double cpu_us = 0;
    long counted = 0;

    for (long i = 0; i < 400 / middle + 1 && !client->failed; i++) {
        struct conversation *conversation = conversation_new(client, client->args->model);
        long first = middle - middle / 10 - 1;
        long last = middle + middle / 10;

        conversation->turns = last;
        client->requests = 0;
        client->running = 1;
        send_request(conversation);
        while (client->requests < first && !client->failed) {
            loop_once(client);
        }

        long before = client->requests;
        struct bench_mark start = bench_now();

        while (client->running > 0 && !client->failed) {
            loop_once(client);
        }
        cpu_us += bench_since(start).cpu_us;
        counted += client->requests - before;
    }
    return cpu_us / (double)counted;
}

static void measure_history(struct client *client)
{
    const char *separator = "";

    printf("\"history\":{");
    for (long middle = 10; middle <= client->args->turns; middle *= 10) {
        printf("%s\"%ld\":%.2f", separator, middle, around_turn(client, middle));
        separator = ",";
    }
    printf("}");
}

static int first_byte_after_init(const struct bench_args *args)
{
    int fd = bench_connect(args->port);

    if (fd < 0 || write(fd, "x", 1) != 1) {
        perror("first byte");
        return 1;
    }
    close(fd);
    return 0;
}

static void client_open(struct client *client, const struct bench_args *args)
{
    size_t filler = (size_t)(args->deltas * args->delta_bytes);

    client->args = args;
    client->multi = curl_multi_init();
    client->epoll = epoll_create1(EPOLL_CLOEXEC);
    client->headers = curl_slist_append(NULL, "Content-Type: application/json");
    client->headers = curl_slist_append(client->headers, "Authorization: Bearer bench-key-0001");
    client->headers = curl_slist_append(client->headers, "Accept: text/event-stream");
    client->headers = curl_slist_append(client->headers, "Expect:");
    snprintf(client->url, sizeof(client->url), "http://127.0.0.1:%ld/v1/chat/completions",
             args->port);
    client->text = malloc(filler + 1);
    client->arguments = malloc(filler + 64);
    if (client->text == NULL || client->arguments == NULL || client->multi == NULL) {
        out_of_memory();
    }
    memset(client->text, 'a', filler);
    client->text[filler] = '\0';
    filler -= (size_t)(2 * args->delta_bytes); /* the call spends two deltas on its frame */
    snprintf(client->arguments, filler + 64, "{\\\"" BENCH_PARAM "\\\":\\\"%.*s\\\"}", (int)filler,
             client->text);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, args->concurrency + args->hold + 16);
}

static void client_close(struct client *client)
{
    curl_multi_cleanup(client->multi);
    curl_slist_free_all(client->headers);
    close(client->epoll);
    free(client->text);
    free(client->arguments);
}

int main(int argc, char **argv)
{
    struct bench_args args;
    struct client client = { 0 };

    if (!bench_parse(argc, argv, &args)) {
        return 2;
    }
    bench_many_files();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    client_open(&client, &args);
    if (strcmp(args.mode, "init") == 0) {
        return first_byte_after_init(&args);
    }
    if (strcmp(args.mode, "request") == 0) {
        run_conversations(&client, 1);
        return 1; /* startup.c has ended us by now */
    }

    printf("{\"program\":\"bare libcurl\",");

    struct conversation **held = hold_streams(&client);

    if (strcmp(args.mode, "history") == 0) {
        measure_history(&client);
    } else {
        measure_turns(&client);
    }
    printf(",\"peak_kib\":%ld}\n", bench_peak_kib());
    for (long i = 0; i < args.hold && held[i] != NULL; i++) {
        conversation_free(held[i]);
    }
    free(held);
    client_close(&client);
    curl_global_cleanup();
    return client.failed;
}
