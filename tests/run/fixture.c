#include "fixture.h"

int fixture_start_of(void **state, const char *server)
{
    fixture *f = calloc(1, sizeof *f);

    f->server = standin_start(server, NULL);
    if (f->server == NULL) {
        free(f);
        return -1;
    }
    snprintf(f->url, sizeof f->url, "%s", standin_url(f->server));
    *state = f;
    return 0;
}

int fixture_start(void **state)
{
    return fixture_start_of(state, "chat");
}

int fixture_stop(void **state)
{
    fixture *f = *state;

    standin_stop(f->server);
    free(f);
    return 0;
}

int fixture_fresh(void **state)
{
    fixture *f = *state;

    if (!standin_reset(f->server)) {
        return -1;
    }
    f->rt = waldo_runtime_new(NULL);
    return f->rt != NULL && waldo_runtime_error(f->rt) == NULL ? 0 : -1;
}

int fixture_drop(void **state)
{
    fixture *f = *state;

    waldo_runtime_finish(f->rt);
    f->rt = NULL;
    return 0;
}

waldo_runtime *fixture_runtime(fixture *f, const waldo_runtime_options *options)
{
    waldo_runtime_finish(f->rt);
    f->rt = waldo_runtime_new(options);
    assert_non_null(f->rt);
    assert_null(waldo_runtime_error(f->rt));
    return f->rt;
}

const char *fixture_model(fixture *f, const char *name)
{
    char *text = f->model[f->models++ % 8];

    snprintf(text, sizeof f->model[0], "chat:%s#%s", f->url, name);
    return text;
}

void fixture_replies(fixture *f, const char *json)
{
    size_t size = strlen(json) + 32;
    char *text = malloc(size);

    snprintf(text, size, "{\"replies\": %s}", json);
    assert_true(standin_control(f->server, text));
    free(text);
}

/* Copy an item without its vendor, which every response part has. */
static size_t copy_item(char *to, waldo_str item)
{
    const char *vendor = strstr(item.ptr, ",\"vendor\":\"");
    size_t head = vendor != NULL ? (size_t)(vendor - item.ptr) : item.len;
    const char *tail =
        vendor != NULL ? strchr(vendor + strlen(",\"vendor\":\""), '"') + 1 : item.ptr + item.len;
    size_t rest = (size_t)(item.ptr + item.len - tail);

    memcpy(to, item.ptr, head);
    memcpy(to + head, tail, rest);
    return head + rest;
}

const char *fixture_items(const waldo_run *run)
{
    static char text[1024 * 1024];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < waldo_run_item_count(run); i++) {
        waldo_str item = waldo_run_item(run, i);

        assert_true(len + item.len + 2 < sizeof text);
        len += copy_item(text + len, item);
        text[len++] = '\n';
        text[len] = '\0';
    }
    return text;
}

waldo_status fixture_pull(waldo_run *run, const char **ret_kinds)
{
    static char kinds[65536];
    const waldo_event *event;
    waldo_status status;
    size_t len = 0;

    kinds[0] = '\0';
    while ((status = waldo_run_next(run, 60000, &event)) == WALDO_OK) {
        const char *name = waldo_event_kind_name(waldo_event_type(event));

        assert_true(len + strlen(name) + 2 < sizeof kinds);
        len += (size_t)snprintf(kinds + len, sizeof kinds - len, "%s ", name);
    }
    if (ret_kinds != NULL) {
        *ret_kinds = kinds;
    }
    return status;
}

const char *fixture_texts(waldo_run *run, waldo_event_kind kind)
{
    static char text[65536];
    const waldo_event *event;

    text[0] = '\0';
    while (waldo_run_next(run, 60000, &event) == WALDO_OK) {
        if (waldo_event_type(event) == kind) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n",
                     waldo_event_text(event).ptr);
        }
    }
    return text;
}

static waldo_status echo(void *userdata, waldo_tool_call *call)
{
    int *calls = userdata;

    (*calls)++;
    return waldo_tool_call_reply(call, "echo: %s", waldo_tool_call_str(call, "text"));
}

waldo_tool *echo_tool(int *calls, uint32_t flags)
{
    return WALDO_TOOL(.name = "echo", .about = "Say it again.",
                      .params = WALDO_PARAMS({ .name = "text", .type = WALDO_STRING }),
                      .call = echo, .userdata = calls, .flags = flags);
}
