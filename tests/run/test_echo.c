/*
 * A server that quotes the request, over each API: the key is in no event, error, log line, item or
 * record of the store, as it is, in base64 or percent-encoded, and in no memory that is given back.
 */
#include <cjson/cJSON.h>
#include <malloc.h>
#include <unistd.h>

#include "fixture.h"
#include "keeper.h"

#define KEY "sk-ab/cd+ef=gh0123456789-abcdefgh"

static const char *const forms[] = {
    KEY,
    /* percent-encoded, and in base64 at each place of a longer text */
    "sk-ab%2Fcd%2Bef%3Dgh0123456789-abcdefgh",
    "c2stYWIvY2QrZWY9Z2gwMTIzNDU2Nzg5LWFiY2RlZmdo",
    "ay1hYi9jZCtlZj1naDAxMjM0NTY3ODktYWJjZGVm",
    "LWFiL2NkK2VmPWdoMDEyMzQ1Njc4OS1hYmNkZWZn",
};

static struct {
    const char *kind;
    const char *server;
    const char *stream_error;
    standin *standin;
} apis[] = { { "chat", "chat", "object", NULL },
             { "openai", "responses", "flat", NULL },
             { "anthropic", "messages", "api_error", NULL } };

enum { APIS = sizeof apis / sizeof apis[0], WAIT_MS = 60000 };

static size_t found_in(waldo_str text)
{
    size_t found = 0;

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        found += text.len > 0 && memmem(text.ptr, text.len, forms[i], strlen(forms[i])) != NULL;
    }
    return found;
}

/* ---- an allocator that looks at what is given back, cJSON's blocks included ---- */

static struct {
    size_t blocks; /* looked at */
    size_t trees;  /* of those, cJSON's */
    size_t keys;   /* in which the key stood, in any form, or a half of it */
} given_back;

static void look_at(void *ptr)
{
    static const char *const halves[] = { "sk-ab/cd+ef=gh01", "3456789-abcdefgh" };
    size_t size = ptr != NULL ? malloc_usable_size(ptr) : 0;
    size_t found = found_in((waldo_str){ ptr, size });

    for (size_t i = 0; i < sizeof halves / sizeof halves[0] && size > 0; i++) {
        found += memmem(ptr, size, halves[i], strlen(halves[i])) != NULL;
    }
    given_back.blocks += ptr != NULL;
    given_back.keys += found > 0;
}

static void *hook_malloc(void *userdata, size_t size)
{
    void *ptr = malloc(size);

    (void)userdata;
    if (ptr != NULL) {
        memset(ptr, 0, malloc_usable_size(ptr)); /* so that what is found is the library's */
    }
    return ptr;
}

static void hook_free(void *userdata, void *ptr)
{
    (void)userdata;
    look_at(ptr);
    free(ptr);
}

/* Always moves, as any may. */
static void *hook_realloc(void *userdata, void *ptr, size_t size)
{
    void *other = hook_malloc(userdata, size);
    size_t old = ptr != NULL ? malloc_usable_size(ptr) : 0;

    if (other != NULL && ptr != NULL) {
        memcpy(other, ptr, old < size ? old : size);
        hook_free(userdata, ptr);
    }
    return other;
}

static void *tree_malloc(size_t size)
{
    return hook_malloc(NULL, size);
}

static void tree_free(void *ptr)
{
    given_back.trees += ptr != NULL;
    hook_free(NULL, ptr);
}

/* ---- what is told and kept ---- */

static struct {
    size_t found; /* secrets in it */
    size_t named; /* events and errors with its name in its place */
} kept;

static keeper store_kept;

static void on_log(void *userdata, waldo_log_level level, const char *area, waldo_str line)
{
    (void)userdata;
    (void)level;
    (void)area;
    kept.found += found_in(line);
}

static waldo_status get_key(void *userdata, const char *name, waldo_str *ret_value,
                            int64_t *ret_expires_at)
{
    (void)userdata;
    (void)name;
    *ret_value = (waldo_str){ KEY, strlen(KEY) };
    *ret_expires_at = 0;
    return WALDO_OK;
}

/* ---- the runs ---- */

static int start(void **state)
{
    (void)state;
    for (size_t i = 0; i < APIS; i++) {
        apis[i].standin = standin_start(apis[i].server, NULL);
        if (apis[i].standin == NULL) {
            return -1;
        }
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < APIS; i++) {
        standin_stop(apis[i].standin);
    }
    return 0;
}

/* One run whose requests are all answered so, recorded or not. 1 when it ended well. */
static int answered_so(size_t api, const char *reply, const char *record)
{
    const waldo_keys keys = { .size = sizeof keys, .get = get_key };
    waldo_store *store = keeper_store(&store_kept);
    waldo_runtime *rt = waldo_runtime_new(
        &WALDO_RUNTIME(.store = store, .keys = &keys, .log = on_log, .log_level = WALDO_LOG_TRACE));
    const waldo_event *event;
    waldo_model *model;
    waldo_agent *agent;
    const char *items;
    waldo_run *run;
    int well;
    char text[1024];

    memset(&kept, 0, sizeof kept);
    memset(&store_kept, 0, sizeof store_kept);
    snprintf(text, sizeof text, "{\"replies\":[%s,%s,%s,%s,%s,%s]}", reply, reply, reply, reply,
             reply, reply);
    assert_true(standin_reset(apis[api].standin) && standin_control(apis[api].standin, text));
    snprintf(text, sizeof text, "%s:%s#m", apis[api].kind, standin_url(apis[api].standin));
    model = waldo_model_new(&WALDO_MODEL(.model = text, .key_name = "MY_KEY"));
    agent = waldo_agent_new(&WALDO_AGENT(.model_object = model));
    run = waldo_run_new(rt, agent, &WALDO_RUN(.prompt = "go", .record = record));
    while (waldo_run_next(run, WAIT_MS, &event) == WALDO_OK) {
        kept.found += found_in(waldo_event_json(event));
        kept.named += strstr(waldo_event_json(event).ptr, "[MY_KEY]") != NULL;
    }
    well = waldo_run_status(run) >= 0;
    kept.named += strstr(waldo_run_errmsg(run), "[MY_KEY]") != NULL;
    kept.found += found_in((waldo_str){ waldo_run_errmsg(run), strlen(waldo_run_errmsg(run)) });
    kept.found += found_in((waldo_str){ waldo_run_text(run), strlen(waldo_run_text(run)) });
    items = fixture_items(run);
    kept.found += found_in((waldo_str){ items, strlen(items) });
    waldo_run_free(run);
    waldo_agent_unref(agent);
    waldo_model_unref(model);
    waldo_runtime_finish(rt);
    waldo_store_unref(store);
    kept.found += found_in((waldo_str){ store_kept.text, store_kept.len });
    assert_true(store_kept.count > 0);
    return well;
}

#define ECHO "\"echo\":true,\"forms\":[\"base64\",\"url\"]"

/* The ways in which a server may quote it: refusing, within the stream, and in its text. */
enum { WAYS = 3, IN_TEXT = 2 };

static const char *quoting(size_t api, size_t way)
{
    static char in_stream[256];

    snprintf(in_stream, sizeof in_stream,
             "{\"status\":200," ECHO ",\"headers\":{\"retry-after-ms\":\"1\"},"
             "\"stream_error\":\"%s\"}",
             apis[api].stream_error);
    return way == 0         ? "{\"status\":400," ECHO "}"
           : way == IN_TEXT ? "{\"status\":200," ECHO "}"
                            : in_stream;
}

static void a_quoted_key_is_told_and_kept_nowhere(void **state)
{
    (void)state;
    for (size_t api = 0; api < APIS; api++) {
        for (size_t way = 0; way < WAYS; way++) {
            assert_int_equal(answered_so(api, quoting(api, way), NULL), way == IN_TEXT);
            assert_int_equal(kept.found, 0);
            assert_true(kept.named > 0);
        }
    }
}

/* What the library wrote the key into is overwritten before it is given back. */
static void own_buffers_are_wiped(void **state)
{
    (void)state;
    for (size_t api = 0; api < APIS; api++) {
        memset(&given_back, 0, sizeof given_back);
        assert_true(answered_so(api, "{\"text\":\"ok\"}", NULL));
        assert_true(given_back.blocks > 100 && given_back.trees > 10);
        assert_int_equal(given_back.keys, 0);
    }
}

/* So is what an answer came in, and what was made of it, on the way to a recording, too. */
static void buffers_of_answers_that_quote_it_are_wiped(void **state)
{
    char record[] = "/tmp/waldo-echo-XXXXXX";
    int fd = mkstemp(record);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (size_t api = 0; api < APIS; api++) {
        for (size_t way = 0; way < 2 * WAYS; way++) {
            memset(&given_back, 0, sizeof given_back);
            answered_so(api, quoting(api, way / 2), way % 2 == 1 ? record : NULL);
            assert_true(given_back.blocks > 100 && given_back.trees > 10);
            assert_int_equal(given_back.keys, 0);
        }
    }
    unlink(record);
}

int main(void)
{
    const waldo_allocator hook = { hook_malloc, hook_realloc, hook_free, NULL };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quoted_key_is_told_and_kept_nowhere),
        cmocka_unit_test(own_buffers_are_wiped),
        cmocka_unit_test(buffers_of_answers_that_quote_it_are_wiped),
    };

    if (waldo_set_allocator(&hook) != WALDO_OK) {
        return 1;
    }
    cJSON_InitHooks(&(cJSON_Hooks){ tree_malloc, tree_free });
    return !!cmocka_run_group_tests(tests, start, stop);
}
