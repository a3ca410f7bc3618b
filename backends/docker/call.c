/* Requests to the engine: JSON there and back, with a deadline each. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/header.h"
#include "docker.h"

enum {
    BODY_MAX = 1024 * 1024,
    ANSWER_MAX = 16 * 1024 * 1024,
    URL_MAX = 16 * 1024,
    SILENCE_MS = 180000 /* of an engine that fetches an image, which may take long */
};

void waldo__docker_call_init(docker_call *call, docker_engine *engine, void *userdata)
{
    *call = (docker_call){ .engine = engine,
                           .body = WALDO__BUF_INIT(BODY_MAX),
                           .path = WALDO__BUF_INIT(URL_MAX),
                           .userdata = userdata };
    waldo__ask_init(&call->ask, engine->env->loop, engine->env->http, ANSWER_MAX, call);
}

void waldo__docker_call_free(docker_call *call)
{
    waldo__ask_free(&call->ask);
    waldo__buf_free(&call->body);
    waldo__buf_free(&call->path);
}

/* What the headers tell about the engine. */
static waldo_status learn(docker_call *call, waldo_error **ret_err)
{
    docker_engine *engine = call->engine;
    waldo_str head = waldo__buf_str(&call->ask.head);
    waldo_str version;

    engine->podman |= waldo__header_get(head, "Libpod-Api-Version", &version);
    return engine->version[0] == '\0' && call->ask.http_status == 200 &&
                   waldo__header_get(head, "Api-Version", &version)
               ? waldo__docker_engine_agree(engine, version, ret_err)
               : WALDO_OK;
}

/* Whole lines of a stream, as they come. */
static waldo_status take_lines(void *userdata, waldo_str bytes)
{
    docker_call *call = userdata;
    waldo_status status = waldo__buf_add_str(&call->ask.answer, bytes);
    waldo_str text = waldo__buf_str(&call->ask.answer);
    size_t used = 0;
    size_t end;

    while (status == WALDO_OK &&
           (end = waldo__str_find(waldo__slice(text.ptr + used, text.len - used), '\n')) <
               text.len - used) {
        status = call->on_line(call->userdata, waldo__slice(text.ptr + used, end));
        used += end + 1;
    }
    waldo__buf_consume(&call->ask.answer, used);
    return status;
}

static waldo_status take_bytes(void *userdata, waldo_str bytes)
{
    docker_call *call = userdata;

    return call->on_bytes(call->userdata, bytes);
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    docker_call *call = userdata;
    waldo_error *made = NULL;

    if (status == WALDO_OK) {
        status = learn(call, &made);
        error = made;
    }
    if (status == WALDO_OK && call->on_line != NULL && call->ask.http_status == 200 &&
        call->ask.answer.len > 0) {
        status = call->on_line(call->userdata, waldo__buf_str(&call->ask.answer));
    }
    call->done(call->userdata, status, error);
    waldo_error_free(made);
}

void waldo__docker_call_start(docker_call *call, const char *method, int64_t ms,
                              int64_t deadline_ns, docker_call_fn done)
{
    const docker_engine *engine = call->engine;
    int64_t own = ms > 0 ? waldo__deadline_ns(ms) : WALDO__NEVER;
    waldo_str path = waldo__buf_str(&call->path);
    waldo__buf url = WALDO__BUF_INIT(URL_MAX);
    int archive = strcmp(method, "PUT") == 0;
    waldo__http_request request = { .method = method,
                                    .headers = archive
                                                   ? WALDO__S("Content-Type: application/x-tar\n")
                                                   : WALDO__S("Content-Type: application/json\n"),
                                    .body = waldo__buf_str(&call->body),
                                    .unix_socket = engine->path[0] != '\0' ? engine->path : NULL,
                                    .replay = strcmp(method, "GET") == 0 ? WALDO__REPLAY_SAFE
                                                                         : WALDO__REPLAY_IF_UNSENT,
                                    .idle_timeout_ms = call->on_line != NULL ? SILENCE_MS : 0,
                                    .deadline_ns = own < deadline_ns ? own : deadline_ns };

    url.status = call->path.status;
    if (engine->path[0] != '\0') {
        waldo__buf_puts(&url, "http://localhost");
    } else {
        waldo__buf_printf(&url,
                          strchr(engine->host, ':') != NULL ? "http://[%s]:%d%s" : "http://%s:%d%s",
                          engine->host, engine->port, engine->prefix);
    }
    if (!waldo__str_is(path, "/_ping")) {
        waldo__buf_printf(&url, "/v%s", engine->version);
    }
    waldo__buf_add_str(&url, path);
    request.url = waldo__buf_str(&url).ptr;
    call->done = done;
    call->ask.on_bytes = call->on_bytes != NULL  ? take_bytes
                         : call->on_line != NULL ? take_lines
                                                 : NULL;
    waldo__ask_start(&call->ask, &request, url.status != WALDO_OK ? url.status : call->body.status,
                     on_done);
    waldo__buf_clear(&call->path);
    waldo__buf_free(&url);
}

void waldo__docker_call_message(const docker_call *call, waldo__buf *out)
{
    waldo_str text = waldo__str_trim(waldo__buf_str(&call->ask.answer));
    waldo__json *doc = NULL;
    waldo_str message = { "", 0 };

    if (waldo__json_parse(text, NULL, &doc, NULL) == WALDO_OK) {
        message = waldo__json_get_str(waldo__json_root(doc), "message");
    } else {
        message = text;
    }
    if (message.len > 0) {
        waldo__buf_printf(out, "%.*s", (int)(message.len < 1000 ? message.len : 1000), message.ptr);
    } else {
        waldo__buf_printf(out, "HTTP status %d", call->ask.http_status);
    }
    waldo__json_free(doc);
}

waldo_status waldo__docker_call_error(const docker_call *call, waldo_status status,
                                      const waldo_error *error, const char *what,
                                      waldo_error **ret_err)
{
    waldo__buf said = WALDO__BUF_INIT(4096);
    const char *where = call->engine->text;

    if (status == WALDO_ETIMEDOUT || status == WALDO_ETIMEDOUT_DEADLINE ||
        status == WALDO_ETIMEDOUT_CONNECT || status == WALDO_ETIMEDOUT_IDLE) {
        status = waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                 "docker: %s: the engine at %s did not answer in time; see whether "
                                 "`docker info` answers, and restart the engine if not",
                                 what, where);
    } else if (status != WALDO_OK && waldo_error_get_class(error) == WALDO_CLASS_TRANSPORT) {
        status = waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                 "docker: %s: the engine at %s has gone, stopped or restarted (%s)",
                                 what, where, waldo_error_message(error));
    } else if (status != WALDO_OK) {
        status = waldo_error_set(ret_err, status, WALDO_CLASS_BACKEND, "docker: %s: %s", what,
                                 waldo__error_text(status, error));
    } else {
        waldo__docker_call_message(call, &said);
        status = waldo_error_set(ret_err,
                                 call->ask.http_status == 404   ? WALDO_ENOTFOUND
                                 : call->ask.http_status == 409 ? WALDO_EEXISTS
                                 : call->ask.http_status == 400 ? WALDO_EINVAL
                                                                : WALDO_EUNAVAILABLE,
                                 WALDO_CLASS_BACKEND, "docker: %s: the engine says: %s", what,
                                 waldo__buf_str(&said).ptr);
        if (ret_err != NULL) {
            waldo_error_add_http(*ret_err, call->ask.http_status, NULL, NULL, -1);
        }
    }
    waldo__buf_free(&said);
    return status;
}
