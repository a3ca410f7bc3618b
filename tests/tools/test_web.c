/* web_fetch: what is refused before or instead of a request. Nothing here leaves the machine. */
#include "fixture.h"

static waldo_tool *tool(const char *hosts)
{
    return waldo_tool_web_fetch(hosts);
}

static void test_golden(void **state)
{
    static const char *const urls[] = {
        "http://docs.example.org/",
        "HTTPS://docs.example.org/",
        "https://docs.example.org:8443/",
        "https://user@docs.example.org/",
        "https://docs.example.org@evil.example/",
        "https://[::1]/",
        "https://docs.example.org\\\\@evil.example/",
        "https://docs.example.org#.evil.example/",
        "https:///etc/passwd",
        "file:///etc/passwd",
        "",
        "https://evil.example/docs.example.org",
        "https://docs.example.org.evil.example/",
        "https://notdocs.example.org/",
        "https://docs.example.org./",
        "https://wiki.example/",
        "https://evilwiki.example/",
    };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(urls); i++) {
        char args[300];
        outcome out;
        waldo_tool_call *call;

        snprintf(args, sizeof args, "{\"url\":\"%s\"}", urls[i]);
        call = start_tool(f, tool("docs.example.org, *.wiki.example"), args, &out);
        finish(f, &out);
        assert_int_equal(out.end, WALDO__CALL_FAIL);
        waldo__buf_printf(&f->transcript, "### web_fetch %s\n%s\n", args, out.text);
        waldo__tool_call_release(call);
        outcome_free(&out);
    }
    golden_check(f, "web_fetch.results");
}

/* Allowed by name, and still not reached: the address is one of ours. */
static void test_private_address(void **state)
{
    static const char *const args[] = { "{\"url\":\"https://localhost/\"}",
                                        "{\"url\":\"https://127.0.0.1/\"}" };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(args); i++) {
        outcome out;
        waldo_tool_call *call = start_tool(f, tool("localhost,127.0.0.1"), args[i], &out);

        finish(f, &out);
        assert_int_equal(out.end, WALDO__CALL_FAIL);
        assert_contains(out.text, "is not a public address");
        waldo__tool_call_release(call);
        outcome_free(&out);
    }
}

/* An empty list allows nothing. */
static void test_no_hosts(void **state)
{
    static const char *const lists[] = { "", ",", " , ", NULL };
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(lists); i++) {
        outcome out;
        waldo_tool_call *call =
            start_tool(f, tool(lists[i]), "{\"url\":\"https://docs.example.org/\"}", &out);

        finish(f, &out);
        assert_int_equal(out.end, WALDO__CALL_FAIL);
        assert_contains(out.text, "is not among the hosts that may be fetched");
        waldo__tool_call_release(call);
        outcome_free(&out);
    }
}

static void test_cancel(void **state)
{
    fixture *f = *state;
    outcome out;
    waldo_tool_call *call =
        start_tool(f, tool("localhost"), "{\"url\":\"https://localhost/\"}", &out);

    waldo__tool_call_cancel(call);
    waldo__tool_call_release(call);
    for (int i = 0; i < 5; i++) {
        waldo_runtime_step(f->rt, 10);
    }
    assert_int_equal(out.count, 0);
    outcome_free(&out);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { ONE(test_golden), ONE(test_private_address),
                                        ONE(test_no_hosts), ONE(test_cancel) };

    return fixture_arguments(argc, argv) != 0 ? 2 : !!cmocka_run_group_tests(tests, NULL, NULL);
}
