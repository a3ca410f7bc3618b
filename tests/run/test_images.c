/* Images from the user and from tools: what the model is sent, what is kept, what is refused. */
#include "fixture.h"

#define PNG "\x89PNG\r\n\x1a\n" /* all that is looked at */
#define B64 "iVBORw0KGgo="

static waldo_str png(void)
{
    return (waldo_str){ PNG, sizeof PNG - 1 };
}

static waldo_str text(const char *chars)
{
    return (waldo_str){ chars, strlen(chars) };
}

typedef struct shots {
    int fails;
    waldo_status status[8];
    waldo_status late;
} shots;

/* Gives each kind that is taken, and one that is not. */
static waldo_status shoot(void *userdata, waldo_tool_call *call)
{
    shots *s = userdata;
    waldo_status end;

    s->status[0] = waldo_tool_call_add_image(call, png());
    s->status[1] = waldo_tool_call_add_image(call, text("\xff\xd8\xff\xe0 JFIF"));
    s->status[2] = waldo_tool_call_add_image(call, text("GIF89a"));
    s->status[3] = waldo_tool_call_add_image(call, text("RIFF....WEBPVP8 "));
    s->status[4] = waldo_tool_call_add_image(call, text("RIFF....WAVEfmt "));
    s->status[5] = waldo_tool_call_add_image(call, text("%PDF-1.7"));
    s->status[6] = waldo_tool_call_add_image(call, (waldo_str){ "", 0 });
    end = s->fails ? waldo_tool_call_fail(call, "no camera") : waldo_tool_call_reply(call, "taken");
    s->late = waldo_tool_call_add_image(call, png());
    return end;
}

static waldo_agent *shooting_agent(fixture *f, shots *s)
{
    return waldo_agent_new(
        &WALDO_AGENT(.model = fixture_model(f, "images"), .capabilities = WALDO_NO_TOOLS,
                     .tools =
                         WALDO_TOOLS(WALDO_TOOL(.name = "shoot", .call = shoot, .userdata = s))));
}

static char *body_of(fixture *f, size_t index)
{
    size_t len;
    char *body = standin_request_body(f->server, index, &len);

    assert_non_null(body);
    return body;
}

static void images_of_the_user(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "echo")));
    waldo_run *run = waldo_run_new(f->rt, agent, NULL);
    const waldo_part parts[] = { { .text = text("which?") },
                                 { .image = png() },
                                 { .text = text("left"), .image = png() } };
    const waldo_part alone = { .image = png() };
    char *body;

    assert_int_equal(waldo_run_send_parts(run, parts, 3), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    body = body_of(f, 0);
    assert_contains(
        body,
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"which?\\nleft\"},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64," B64 "\"}},"
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64," B64 "\"}}]}");
    free(body);
    assert_contains(fixture_items(run), "{\"kind\":\"user\",\"text\":\"which?\\nleft\",\"media\":["
                                        "{\"mime\":\"image/png\",\"base64\":\"" B64 "\"},");
    assert_int_equal(waldo_run_send_parts(run, &alone, 1), WALDO_OK);
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    body = body_of(f, 1);
    assert_contains(body, "[{\"type\":\"text\",\"text\":\"(image)\"},{\"type\":\"image_url\"");
    free(body);
    waldo_agent_unref(agent);
}

static void refuses_what_is_no_image(void **state)
{
    fixture *f = *state;
    waldo_agent *agent = waldo_agent_new(&WALDO_AGENT(.model = fixture_model(f, "echo")));
    waldo_run *run = waldo_run_new(f->rt, agent, NULL);
    size_t large = 10 * 1024 * 1024 + 1;
    char *bytes = calloc(1, large);
    waldo_part many[21];

    memcpy(bytes, PNG, sizeof PNG - 1);
    assert_int_equal(waldo_run_send_parts(run, many, 0), WALDO_EINVAL);
    assert_int_equal(waldo_run_send_parts(run, &(waldo_part){ .image = text("BM") }, 1),
                     WALDO_EINVAL);
    assert_int_equal(waldo_run_send_parts(run, &(waldo_part){ .text = text("\xff") }, 1),
                     WALDO_EUTF8);
    assert_int_equal(waldo_run_send_parts(run, &(waldo_part){ .image = { bytes, large } }, 1),
                     WALDO_ETOOBIG);
    for (size_t i = 0; i < 21; i++) {
        many[i] = (waldo_part){ .image = png() };
    }
    assert_int_equal(waldo_run_send_parts(run, many, 21), WALDO_ETOOBIG);
    for (size_t i = 0; i < 4; i++) {
        many[i] = (waldo_part){ .image = { bytes, large - 1 } };
    }
    assert_int_equal(waldo_run_send_parts(run, many, 4), WALDO_ETOOBIG);
    assert_int_equal(waldo_run_get_state(run), WALDO_RUN_IDLE);
    assert_string_equal(fixture_items(run), "");
    free(bytes);
    waldo_agent_unref(agent);
}

/* Chat Completions has no images in results: they follow the last result of the answer. */
static void images_of_tools(void **state)
{
    fixture *f = *state;
    shots s = { 0 };
    waldo_agent *agent = shooting_agent(f, &s);
    waldo_run *run;
    char *body, *first, *second;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"shoot\",\"arguments\":\"{}\"},"
                       "{\"id\":\"c2\",\"name\":\"shoot\",\"arguments\":\"{}\"}]},"
                       "{\"text\":\"seen\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "look"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_string_equal(waldo_run_text(run), "seen");
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(s.status[i], i < 4 ? WALDO_OK : WALDO_EINVAL);
    }
    assert_int_equal(s.late, WALDO_ECLOSED);
    body = body_of(f, 1);
    first = strstr(body, "taken\\n[image 1 attached below]\\n[image 2 attached below]");
    second = strstr(body, "taken\\n[image 5 attached below]\\n[image 6 attached below]");
    assert_non_null(first);
    assert_non_null(second);
    assert_contains(
        second, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[notice from the "
                "host] images 1, 2, 3, 4 of the result of shoot:\"},{\"type\":\"image_url\","
                "\"image_url\":{\"url\":\"data:image/png;base64," B64 "\"}},");
    assert_contains(second, "data:image/jpeg;base64,");
    assert_contains(second, "data:image/gif;base64,");
    assert_contains(second, "images 5, 6, 7, 8 of the result of shoot:");
    free(body);
    assert_contains(fixture_items(run), "\"text\":\"taken\",\"media\":[{\"mime\":\"image/png\"");
    waldo_agent_unref(agent);
}

static void a_failed_call_shows_nothing(void **state)
{
    fixture *f = *state;
    shots s = { .fails = 1 };
    waldo_agent *agent = shooting_agent(f, &s);
    waldo_run *run;

    fixture_replies(f, "[{\"calls\":[{\"id\":\"c1\",\"name\":\"shoot\",\"arguments\":\"{}\"}]},"
                       "{\"text\":\"pity\"}]");
    run = waldo_run_new(f->rt, agent, &WALDO_RUN(.prompt = "look"));
    assert_int_equal(waldo_run_wait(run, 60000), WALDO_OK);
    assert_lacks(fixture_items(run), "media");
    waldo_agent_unref(agent);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_fresh, fixture_drop)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(images_of_the_user),
        CASE(refuses_what_is_no_image),
        CASE(images_of_tools),
        CASE(a_failed_call_shows_nothing),
    };

    return !!cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
