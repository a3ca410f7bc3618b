/* Without a machine: does an engine answer, which containers are ours, end one of them. */
#include "base/alloc.h"
#include "base/error.h"
#include "docker.h"

enum { QUICK_MS = 5000 };

typedef struct query {
    int64_t deadline_ns;
    waldo_backend_id_fn each; /* list */
    char *id;                 /* destroy */
    int probing;
    int checking;
    waldo_backend_done_fn done;
    void *userdata;
    waldo_status status;
    waldo_error *error;
    waldo__task task; /* completion */
    docker_call call;
    docker_options options; /* of a check */
    docker_engine engine;
} query;

static void complete(void *userdata)
{
    query *q = userdata;

    waldo__docker_call_free(&q->call);
    waldo__docker_options_free(&q->options);
    q->done(q->userdata, q->status, q->error);
    waldo_error_free(q->error);
    waldo__free(q->id);
    waldo__free(q);
}

static void on_removed(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    int code = q->call.ask.http_status;

    if (status != WALDO_OK || (code != 204 && code != 200 && code != 404 && code != 409)) {
        q->status =
            waldo__docker_call_error(&q->call, status, error, "removing the container", &q->error);
    }
    complete(q);
}

static void destroy(query *q)
{
    waldo__buf_puts(&q->call.path, "/containers/");
    waldo__buf_url(&q->call.path, waldo__str(q->id));
    waldo__buf_puts(&q->call.path, "?force=1&v=1");
    waldo__docker_call_start(&q->call, "DELETE", 0, q->deadline_ns, on_removed);
}

static waldo_machine_state state_of(waldo_str state)
{
    static const struct {
        const char *name;
        waldo_machine_state state;
    } states[] = { { "created", WALDO_MACHINE_CREATED }, { "configured", WALDO_MACHINE_CREATED },
                   { "running", WALDO_MACHINE_RUNNING }, { "restarting", WALDO_MACHINE_RUNNING },
                   { "paused", WALDO_MACHINE_PAUSED },   { "exited", WALDO_MACHINE_ENDED },
                   { "stopped", WALDO_MACHINE_ENDED },   { "dead", WALDO_MACHINE_ENDED },
                   { "removing", WALDO_MACHINE_ENDED } };

    for (size_t i = 0; i < WALDO__COUNT(states); i++) {
        if (waldo__str_is(state, states[i].name)) {
            return states[i].state;
        }
    }
    return WALDO_MACHINE_UNKNOWN;
}

/* Answers end in NUL. Labels are whoever's who may use the engine: nothing is believed but text. */
static void tell_each(query *q, const waldo__json_value *item)
{
    const waldo__json_value *labels = waldo__json_get(item, "Labels");
    int64_t created = waldo__json_get_int(item, "Created", 0); /* seconds */
    waldo_sandbox_info info = { .size = sizeof info,
                                .state = state_of(waldo__json_get_str(item, "State")),
                                .id = waldo__json_get_str(item, "Id").ptr,
                                .about = waldo__json_get_str(item, "Image").ptr,
                                .created_ms = created > 0 && created < INT64_MAX / 1000
                                                  ? created * 1000
                                                  : 0 };

    waldo__labels_read(labels, &info);
    q->each(q->userdata, &info);
}

static void on_list(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__json *doc = NULL;
    const waldo__json_value *item = NULL;

    if (status != WALDO_OK || q->call.ask.http_status != 200) {
        q->status =
            waldo__docker_call_error(&q->call, status, error, "listing containers", &q->error);
    } else {
        q->status = waldo__json_parse_answer(waldo__buf_str(&q->call.ask.answer), &doc, &q->error);
        item = waldo__json_first(waldo__json_root(doc));
    }
    if (q->status == WALDO_OK && q->id != NULL && item != NULL) {
        waldo__json_free(doc);
        destroy(q);
        return;
    }
    if (q->status == WALDO_OK && q->id != NULL) {
        q->status = waldo_error_set(&q->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                    "docker: the engine at %s has no container %s of ours",
                                    q->engine.text, q->id);
    }
    for (; q->status == WALDO_OK && q->each != NULL && item != NULL;
         item = waldo__json_next(item)) {
        tell_each(q, item);
    }
    waldo__json_free(doc);
    complete(q);
}

/* Only containers with our label, so that no id can end another's. */
static void list(query *q)
{
    waldo__buf filters = WALDO__BUF_INIT(1024);
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, &filters);
    waldo__jw_object(&jw, NULL);
    waldo__jw_array(&jw, "label");
    waldo__jw_str(&jw, NULL, WALDO__S(WALDO__LABEL_RUN));
    waldo__jw_end(&jw, ']');
    if (q->id != NULL) {
        waldo__jw_array(&jw, "id");
        waldo__jw_text(&jw, NULL, q->id);
        waldo__jw_end(&jw, ']');
    }
    waldo__jw_end(&jw, '}');
    q->call.path.status = filters.status; /* half of a filter would let others through */
    waldo__buf_puts(&q->call.path, "/containers/json?all=1&filters=");
    waldo__buf_url(&q->call.path, waldo__buf_str(&filters));
    waldo__docker_call_start(&q->call, "GET", 0, q->deadline_ns, on_list);
    waldo__buf_free(&filters);
}

static void on_image(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;
    waldo__json *doc = NULL;
    waldo_str arch;

    if (status == WALDO_OK && q->call.ask.http_status == 404) {
        if (q->options.pull == DOCKER_PULL_NEVER) {
            q->status =
                waldo_error_set(&q->error, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND,
                                "docker: the engine at %s has no image %s; fetch it with `docker "
                                "pull %s`",
                                q->engine.text, q->options.image, q->options.image);
        }
    } else if (status != WALDO_OK || q->call.ask.http_status != 200) {
        q->status =
            waldo__docker_call_error(&q->call, status, error, "looking for the image", &q->error);
    } else {
        q->status = waldo__json_parse_answer(waldo__buf_str(&q->call.ask.answer), &doc, &q->error);
        arch = waldo__json_get_str(waldo__json_root(doc), "Architecture");
        if (q->status == WALDO_OK && waldo__docker_hand_for(arch) == NULL) {
            q->status =
                waldo_error_set(&q->error, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                                "docker: the image %s is for another processor", q->options.image);
        }
        waldo__json_free(doc);
    }
    complete(q);
}

/* One made elsewhere; how it is, its opening says. */
static void on_container(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;

    if (status != WALDO_OK || q->call.ask.http_status != 200) {
        q->status =
            waldo__docker_call_error(&q->call, status, error, "looking for a container", &q->error);
    }
    complete(q);
}

static void look_at(query *q, const char *kind, const char *name, docker_call_fn done)
{
    waldo__buf_printf(&q->call.path, "/%s/", kind);
    waldo__buf_url(&q->call.path, waldo__str(name));
    waldo__buf_puts(&q->call.path, "/json");
    waldo__docker_call_start(&q->call, "GET", QUICK_MS, q->deadline_ns, done);
}

static void on_ping(void *userdata, waldo_status status, const waldo_error *error)
{
    query *q = userdata;

    if (status != WALDO_OK || q->call.ask.http_status != 200) {
        q->status =
            waldo__docker_call_error(&q->call, status, error, "asking for its version", &q->error);
    } else if (q->engine.version[0] == '\0') {
        q->status = waldo__docker_engine_agree(&q->engine, WALDO__S(""), &q->error);
    } else if ((q->probing || q->checking) && waldo__hand_at(0) == NULL) {
        q->status = waldo_error_set(&q->error, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                                    "docker: an engine answers, but this build has no hand");
    } else if (q->checking && q->options.attach != NULL) {
        look_at(q, "containers", q->options.attach, on_container);
        return;
    } else if (q->checking) {
        look_at(q, "images", q->options.image, on_image);
        return;
    } else if (!q->probing) {
        list(q);
        return;
    }
    complete(q);
}

static void start(const waldo_backend_env *env, const waldo_backend_call *call, query as,
                  const char *id)
{
    query *q = WALDO__NEW(query);

    if (q == NULL) {
        waldo__docker_options_free(&as.options);
        waldo_error_free(as.error);
        as.done(call->userdata, WALDO_ENOMEM, NULL);
        return;
    }
    *q = as;
    q->userdata = call->userdata;
    q->deadline_ns = call->deadline_ns;
    waldo__task_init(&q->task, complete, q);
    if (q->status == WALDO_OK) {
        q->status =
            waldo__docker_engine_find(&q->engine, env, waldo__str(q->options.host), &q->error);
    }
    if (q->status == WALDO_OK && id != NULL) {
        q->id = waldo__strdup(id);
        q->status = q->id != NULL ? WALDO_OK : WALDO_ENOMEM;
    }
    if (q->status != WALDO_OK) {
        waldo__task_queue(env->loop, &q->task);
        return;
    }
    waldo__docker_call_init(&q->call, &q->engine, q);
    waldo__buf_puts(&q->call.path, "/_ping");
    waldo__docker_call_start(&q->call, "GET", QUICK_MS, q->deadline_ns, on_ping);
}

void waldo__docker_probe(const waldo_backend_env *env, const waldo_backend_call *call,
                         waldo_backend_done_fn done)
{
    start(env, call, (query){ .probing = 1, .done = done }, NULL);
}

void waldo__docker_list(const waldo_backend_env *env, const waldo_backend_call *call,
                        waldo_backend_id_fn each, waldo_backend_done_fn done)
{
    start(env, call, (query){ .each = each, .done = done }, NULL);
}

void waldo__docker_destroy_id(const waldo_backend_env *env, const waldo_backend_call *call,
                              const char *id, waldo_backend_done_fn done)
{
    start(env, call, (query){ .done = done }, id);
}

void waldo__docker_check(const waldo_backend_env *env, const waldo_backend_spec *spec,
                         const waldo_backend_call *call, waldo_backend_done_fn done)
{
    query as = { .checking = 1, .done = done };

    as.status = waldo__docker_options_parse(&as.options, spec, &as.error);
    start(env, call, as, NULL);
}
