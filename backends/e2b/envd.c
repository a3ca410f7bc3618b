/* Processes in the sandbox: a server stream of the Connect protocol, in JSON. */
#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "e2b.h"

enum { MESSAGE_MAX = 16 * 1024 * 1024 };

void waldo__e2b_stream_init(e2b_stream *stream, const e2b_place *place, void *userdata)
{
    *stream = (e2b_stream){ .bytes = WALDO__BUF_INIT(MESSAGE_MAX) };
    waldo__e2b_call_init(&stream->call, place, userdata);
    waldo__connect_init(&stream->frames, MESSAGE_MAX);
}

void waldo__e2b_stream_free(e2b_stream *stream)
{
    waldo__api_call_free(&stream->call);
    waldo__connect_free(&stream->frames);
    waldo__buf_free(&stream->bytes);
    waldo__error_clear(&stream->failure);
}

/* Absent stdin would mean an open one (envd, process.proto). No shell profile is read. */
static void put_start(waldo__buf *out, const char *script, const char *const *args, int with_stdin)
{
    waldo__buf text = WALDO__BUF_INIT(out->max);
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, &text);
    waldo__jw_object(&jw, NULL);
    waldo__jw_object(&jw, "process");
    waldo__jw_text(&jw, "cmd", "/bin/sh");
    waldo__jw_array(&jw, "args");
    waldo__jw_text(&jw, NULL, "-c");
    waldo__jw_text(&jw, NULL, script);
    for (; *args != NULL; args++) {
        waldo__jw_text(&jw, NULL, *args);
    }
    waldo__jw_end(&jw, ']');
    waldo__jw_text(&jw, "cwd", "/");
    waldo__jw_end(&jw, '}');
    waldo__jw_bool(&jw, "stdin", with_stdin);
    waldo__jw_end(&jw, '}');
    if (text.status == WALDO_OK) {
        waldo__connect_put(out, waldo__buf_str(&text));
    } else {
        out->status = text.status;
    }
    waldo__buf_free(&text);
}

void waldo__e2b_stream_start(e2b_stream *stream, const waldo__api_request *limits,
                             const char *script, const char *const *args, int with_stdin,
                             waldo_status (*on_bytes)(void *userdata, waldo_str bytes),
                             waldo__api_fn done)
{
    waldo__api_request request = *limits;

    request.method = "POST";
    request.path = "/process.Process/Start";
    request.type = "application/connect+json";
    request.kind = E2B_DAEMON;
    request.replay = WALDO__REPLAY_NEVER;
    put_start(&stream->call.body, script, args, with_stdin);
    stream->call.on_bytes = on_bytes;
    waldo__api_call_start(&stream->call, &request, done);
}

/* Zero is not said, and what is said may be a number or its text (ProtoJSON). */
static int64_t number(const waldo__json_value *object, const char *key, const char *other)
{
    const waldo__json_value *value = waldo__json_get(object, key);
    int64_t found = 0;
    waldo_str text;

    value = value != NULL ? value : waldo__json_get(object, other);
    if (waldo__json_str(value, &text)) {
        waldo__str_int(text, &found);
    } else {
        waldo__json_int(value, &found);
    }
    return found;
}

/* What a feed is for. */
typedef struct feeding {
    e2b_stream *stream;
    e2b_event_fn fn;
    void *userdata;
} feeding;

static waldo_status give(const feeding *to, waldo__process_event event, waldo_str base64)
{
    waldo__buf *bytes = &to->stream->bytes;

    waldo__buf_clear(bytes);
    if (waldo__base64_decode(base64, bytes) != WALDO_OK) {
        return WALDO_EPROTO;
    }
    return bytes->len > 0 ? to->fn(to->userdata, event, 0, waldo__buf_str(bytes)) : WALDO_OK;
}

static waldo_status on_data(const feeding *to, const waldo__json_value *data)
{
    waldo_str text = waldo__json_get_str(data, "stdout");

    return text.len > 0 ? give(to, WALDO__PROCESS_OUTPUT, text)
                        : give(to, WALDO__PROCESS_DIAGNOSTIC, waldo__json_get_str(data, "stderr"));
}

/* {} or an error. */
static waldo_status on_end(e2b_stream *stream, const waldo__json_value *error)
{
    waldo_str code = waldo__json_get_str(error, "code");
    waldo__buf said = WALDO__BUF_INIT(MESSAGE_MAX);
    waldo__buf name = WALDO__BUF_INIT(MESSAGE_MAX);

    if (error != NULL) {
        waldo__api_put_said(&stream->call, code, &name);
        waldo__api_put_said(&stream->call, waldo__json_get_str(error, "message"), &said);
        waldo_error_set(&stream->failure, waldo__connect_status(code, WALDO_EPROVIDER),
                        WALDO_CLASS_PROVIDER, "e2b: %s: %s", stream->call.request.what,
                        waldo__buf_str(said.len > 0 ? &said : &name).ptr);
        waldo_error_add_http(stream->failure, stream->call.ask.http_status,
                             waldo__buf_str(&name).ptr, NULL, -1);
        waldo__buf_free(&said);
        waldo__buf_free(&name);
    }
    return WALDO_OK;
}

static waldo_status on_message(void *userdata, int last, waldo_str message)
{
    const feeding *to = userdata;
    waldo__json *doc = NULL;
    const waldo__json_value *event;
    const waldo__json_value *found;
    waldo_status status = WALDO_OK;
    waldo_str output;

    /* What nearly every message is; base64 is all that give() takes. */
    if (!last &&
        waldo__json_raw_between(message, "{\"event\":{\"data\":{\"stdout\":\"", "\"}}}", &output)) {
        return give(to, WALDO__PROCESS_OUTPUT, output);
    }
    if (waldo__json_parse(message, NULL, &doc, NULL) != WALDO_OK) {
        return WALDO_EPROTO;
    }
    event = waldo__json_get(waldo__json_root(doc), "event");
    if (last) {
        status = on_end(to->stream, waldo__json_get(waldo__json_root(doc), "error"));
    } else if ((found = waldo__json_get(event, "data")) != NULL) {
        status = on_data(to, found);
    } else if ((found = waldo__json_get(event, "start")) != NULL) {
        status =
            to->fn(to->userdata, WALDO__PROCESS_STARTED, number(found, "pid", ""), WALDO__S(""));
    } else if ((found = waldo__json_get(event, "end")) != NULL) {
        status = to->fn(to->userdata, WALDO__PROCESS_ENDED, number(found, "exitCode", "exit_code"),
                        waldo__json_get_str(found, "status"));
    }
    waldo__json_free(doc);
    return status;
}

waldo_status waldo__e2b_stream_feed(e2b_stream *stream, waldo_str bytes, e2b_event_fn fn,
                                    void *userdata)
{
    feeding to = { stream, fn, userdata };

    return waldo__connect_feed(&stream->frames, bytes, on_message, &to);
}

waldo_status waldo__e2b_stream_status(e2b_stream *stream, waldo_status status,
                                      const waldo_error *error, waldo_error **ret_err)
{
    if (status == WALDO_OK && stream->failure != NULL) {
        status = waldo_error_status(stream->failure);
        waldo__error_copy_to(ret_err, stream->failure);
    } else if (status == WALDO_OK) {
        int ended = waldo__connect_ended(&stream->frames);

        status = waldo_error_set(ret_err, ended ? WALDO_EPROTO : WALDO_ETRUNCATED,
                                 WALDO_CLASS_PROTOCOL, "e2b: %s: it ended before its %s",
                                 stream->call.request.what, ended ? "process" : "end mark");
    } else {
        waldo__error_copy_to(ret_err, error);
    }
    return status;
}
