/*
 * One command by the engine's exec: make it, read its stream to the end, ask for its exit code. No
 * request can end it (moby, #9994): who wants that kills its processes by another exec.
 */
#include "base/error.h"
#include "plain.h"

enum { QUICK_MS = 30000, WORDS_MAX = 2048, LOOKS_MAX = 12, LIFE_LOOKS = 4 };
/* What a command ends with whose container ends: as it runs, or before the runtime has begun it. */
enum { NOT_BEGUN = 126, KILLED = 137 };

void waldo__docker_put_command(waldo__buf *out, const char *const *argv, const char *const *env,
                               const char *cwd, const char *user, int has_input)
{
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_bool(&jw, "AttachStdin", has_input);
    waldo__jw_bool(&jw, "AttachStdout", 1);
    waldo__jw_bool(&jw, "AttachStderr", 1);
    waldo__jw_bool(&jw, "Tty", 0);
    waldo__jw_array(&jw, "Cmd");
    for (size_t i = 0; argv[i] != NULL; i++) {
        waldo__jw_text(&jw, NULL, argv[i]);
    }
    waldo__jw_end(&jw, ']');
    waldo__jw_array(&jw, "Env");
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        waldo__jw_text(&jw, NULL, env[i]);
    }
    waldo__jw_end(&jw, ']');
    if (cwd != NULL) {
        waldo__jw_text(&jw, "WorkingDir", cwd);
    }
    if (user != NULL) {
        waldo__jw_text(&jw, "User", user);
    }
    waldo__jw_end(&jw, '}');
}

static void over(docker_exec *exec, waldo_status status, const waldo_error *error)
{
    exec->done(exec->userdata, status, exec->exit_code, error);
}

static void lost(docker_exec *exec, const char *why)
{
    waldo_error *made = NULL;

    waldo_error_set(&made, WALDO_ELOST, WALDO_CLASS_BACKEND, "docker: %s", why);
    over(exec, WALDO_ELOST, made);
    waldo_error_free(made);
}

static void refused(docker_exec *exec)
{
    waldo_error *made = NULL;

    waldo_error_set(&made, WALDO_ESTART, WALDO_CLASS_BACKEND, "docker: %s: the engine says: %s",
                    exec->refused, waldo__buf_str(&exec->words).ptr);
    over(exec, WALDO_ESTART, made);
    waldo_error_free(made);
}

static void look_at_container(void *userdata);

/*
 * An answer that ends it; the engine or the container being gone is the sandbox's end. What fails
 * in the engine may have failed because the container just ends.
 */
static void fail(docker_exec *exec, waldo_status status, const waldo_error *error, const char *what)
{
    int code = exec->call.ask.http_status;
    waldo_error *made = NULL;

    if (status == WALDO_OK && (code == 404 || code == 409)) {
        lost(exec, "the container ended and is gone");
        return;
    }
    if (status != WALDO_OK) {
        waldo__docker_call_error(&exec->call, status, error, what, &made);
        lost(exec, waldo_error_message(made));
    } else {
        int first = exec->refused == NULL;

        waldo__buf_clear(&exec->words);
        waldo__docker_call_message(&exec->call, &exec->words);
        exec->refused = what;
        if (code >= 500 && first) {
            exec->timer.fn = look_at_container;
            look_at_container(exec);
        } else {
            refused(exec);
        }
    }
    waldo_error_free(made);
}

/* The body of an answer; NULL when it is no JSON. */
static waldo__json *parse(const docker_exec *exec)
{
    waldo__json *doc = NULL;

    waldo__json_parse_answer(waldo__buf_str(&exec->call.ask.answer), &doc, NULL);
    return doc;
}

static void look(docker_exec *exec, const char *kind, const char *id, docker_call_fn done)
{
    waldo__buf_printf(&exec->call.path, "/%s/%s/json", kind, id);
    waldo__docker_call_start(&exec->call, "GET", QUICK_MS, WALDO__NEVER, done);
}

/* Was it this command, or its whole container? Only the container's own state tells. */
static void on_container(void *userdata, waldo_status status, const waldo_error *error)
{
    docker_exec *exec = userdata;
    waldo__json *doc;
    int running;

    if (status != WALDO_OK || exec->call.ask.http_status != 200) {
        fail(exec, status, error, "looking at the container");
        return;
    }
    doc = parse(exec);
    running = waldo__json_get_bool(waldo__json_get(waldo__json_root(doc), "State"), "Running", 1);
    waldo__json_free(doc);
    if (running && exec->looks < LIFE_LOOKS) { /* its end may not have been noted yet */
        waldo__timer_arm(exec->engine->env->loop, &exec->timer,
                         waldo__deadline_ns(INT64_C(20) << exec->looks++));
    } else if (running && exec->refused != NULL) {
        refused(exec);
    } else if (running) {
        over(exec, WALDO_OK, NULL);
    } else {
        lost(exec, "the container ended");
    }
}

static void look_at_container(void *userdata)
{
    docker_exec *exec = userdata;

    look(exec, "containers", exec->container, on_container);
}

static void on_inspected(void *userdata, waldo_status status, const waldo_error *error)
{
    docker_exec *exec = userdata;
    waldo__json *doc;
    int running;
    int64_t code;

    if (status != WALDO_OK || exec->call.ask.http_status != 200) {
        fail(exec, status, error, "asking for the exit code");
        return;
    }
    doc = parse(exec);
    running = waldo__json_get_bool(waldo__json_root(doc), "Running", 0);
    code = waldo__json_get_int(waldo__json_root(doc), "ExitCode", -1);
    waldo__json_free(doc);
    /* The stream may end a moment before the engine has noted the exit. */
    if ((running || code < 0) && exec->looks < LOOKS_MAX) {
        waldo__timer_arm(exec->engine->env->loop, &exec->timer,
                         waldo__deadline_ns(INT64_C(1) << exec->looks++));
        return;
    }
    if (running || code < 0) {
        lost(exec, "the engine closed the stream of a command that goes on");
        return;
    }
    exec->exit_code = (int)(code & 0xff);
    exec->looks = 0;
    if (exec->exit_code != KILLED && exec->exit_code != NOT_BEGUN) {
        over(exec, WALDO_OK, NULL);
        return;
    }
    exec->timer.fn = look_at_container;
    look_at_container(exec);
}

static void look_again(void *userdata)
{
    docker_exec *exec = userdata;

    look(exec, "exec", exec->id, on_inspected);
}

static waldo_status on_frame(void *userdata, waldo__docker_stream stream, waldo_str bytes)
{
    docker_exec *exec = userdata;

    if (stream == WALDO__DOCKER_ERROR) {
        waldo__buf_add_str(&exec->words, bytes);
    } else if (exec->on_output != NULL) {
        exec->on_output(exec->userdata, stream == WALDO__DOCKER_STDERR ? 2 : 1, bytes);
    }
    return exec->release != NULL ? WALDO_ECLOSED : WALDO_OK;
}

static waldo_status on_bytes(void *userdata, waldo_str bytes)
{
    docker_exec *exec = userdata;

    waldo_status status;

    exec->busy = 1;
    status = waldo__docker_frames_feed(&exec->frames, bytes, on_frame, exec);
    exec->busy = 0;
    if (exec->release != NULL) {
        exec->release(exec->userdata);
        return WALDO_ECLOSED;
    }
    return status;
}

static void on_stream_over(void *userdata, waldo_status status, const waldo_error *error)
{
    docker_exec *exec = userdata;

    exec->call.on_bytes = NULL;
    waldo__buf_clear(&exec->call.body);
    if (status != WALDO_OK || exec->call.ask.http_status != 200) {
        fail(exec, status, error, "running a command");
    } else if (exec->words.len > 0) {
        lost(exec, waldo__buf_str(&exec->words).ptr);
    } else if (!waldo__docker_frames_whole(&exec->frames)) {
        lost(exec, "the stream of a command broke off in the middle of a frame");
    } else {
        look_again(exec);
    }
}

static void on_made(void *userdata, waldo_status status, const waldo_error *error)
{
    docker_exec *exec = userdata;
    waldo__json *doc;
    waldo_str id;

    if (status != WALDO_OK || exec->call.ask.http_status != 201) {
        fail(exec, status, error, "preparing a command");
        return;
    }
    doc = parse(exec);
    id = waldo__json_get_str(waldo__json_root(doc), "Id");
    /* It becomes part of a path. */
    for (size_t i = 0; i < id.len && id.len < sizeof exec->id; i++) {
        char c = id.ptr[i];

        exec->id[i] =
            (char)((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
                       ? c
                       : 'x');
    }
    waldo__json_free(doc);
    waldo__buf_clear(&exec->call.body);
    waldo__buf_puts(&exec->call.body, "{\"Detach\":false,\"Tty\":false}");
    exec->call.on_bytes = on_bytes;
    waldo__buf_printf(&exec->call.path, "/exec/%s/start", exec->id);
    waldo__docker_call_start(&exec->call, "POST", 0, WALDO__NEVER, on_stream_over);
}

void waldo__docker_exec_init(docker_exec *exec, docker_engine *engine, const char *container,
                             void *userdata)
{
    *exec = (docker_exec){ .engine = engine,
                           .container = container,
                           .words = WALDO__BUF_INIT(WORDS_MAX),
                           .userdata = userdata };
    waldo__docker_call_init(&exec->call, engine, exec);
    waldo__timer_init(&exec->timer, look_again, exec);
}

void waldo__docker_exec_free(docker_exec *exec)
{
    if (exec->engine != NULL) {
        waldo__timer_disarm(exec->engine->env->loop, &exec->timer);
        waldo__docker_call_free(&exec->call);
        waldo__buf_free(&exec->words);
    }
}

void waldo__docker_exec_start(docker_exec *exec,
                              void (*on_output)(void *userdata, int stream, waldo_str bytes),
                              docker_exec_fn done)
{
    exec->on_output = on_output;
    exec->done = done;
    waldo__buf_printf(&exec->call.path, "/containers/%s/exec", exec->container);
    waldo__docker_call_start(&exec->call, "POST", QUICK_MS, WALDO__NEVER, on_made);
}
