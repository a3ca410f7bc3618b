/*
 * Every allocation of a call fails once, in turn: the call is refused or ends exactly once, nothing
 * hangs, and the next call on the same sandbox works. What is not given back, the sanitizer finds.
 */
#include "failing.h"
#include "fixture.h"

static void took_end(void *userdata, waldo_tool_call *call, waldo__call_end end,
                     waldo_status status, waldo_str text)
{
    int *ends = userdata;

    (void)call;
    (void)end;
    (void)status;
    (void)text;
    (*ends)++;
}

/* One call with one allocation failing; 0 when there were fewer. */
static int call_with_failure(fixture *f, waldo_tool *tool, const char *args, size_t fail_at)
{
    int ends = 0;
    const waldo__call_sink sink = { .userdata = &ends,
                                    .loop = f->rt->loop,
                                    .sandbox = f->sandbox,
                                    .max_output = 2000,
                                    .ended = took_end };
    waldo_tool_call *call = NULL;
    waldo_error *error = NULL;
    waldo_status status;

    failing.asked = failing.failed = 0;
    failing.fail_at = fail_at;
    failing.on = 1;
    status = waldo__tool_call_new(tool, "id", "key", waldo__str(args), &sink, &call, &error);
    if (status == WALDO_OK) {
        waldo__tool_call_start(call);
        for (int i = 0; i < 1000 && ends == 0; i++) {
            waldo_runtime_step(f->rt, 10000);
        }
    }
    failing.on = 0;
    if (status == WALDO_OK ? ends != 1 : status != WALDO_ENOMEM) {
        fail_msg("%s, allocation %zu: %s, %d ends", args, fail_at, waldo_status_name(status), ends);
    }
    waldo_error_free(error);
    waldo__tool_call_release(call);
    return failing.failed > 0;
}

static void test_walk(void **state)
{
    static const char *const rows[][2] = {
        { "read_file", "{\"path\":\"a.txt\"}" },
        { "read_file", "{\"path\":\"a.txt\",\"byte_offset\":1}" },
        { "read_file", "{\"path\":\"missing\"}" },
        { "write_file", "{\"path\":\"new/b.txt\",\"content\":\"x\"}" },
        { "edit_file", "{\"path\":\"crlf\",\"old_text\":\"a\",\"new_text\":\"aa\\n\"}" },
        { "apply_patch",
          "{\"patch\":\"*** Begin Patch\\n*** Add File: new\\n+x\\n*** Update File: crlf\\n"
          "*** Move to: z\\n@@\\n-a\\n+b\\n*** End Patch\"}" },
        { "apply_patch", "{\"operations\":[{\"type\":\"update_file\",\"path\":\"crlf\",\"diff\":\"@"
                         "@ q\\n-x\\n\"}]}" },
        { "view_image", "{\"path\":\"shot.gif\"}" },
        { "ls", "{}" },
        { "glob", "{\"pattern\":\"**/*.{txt,md}\"}" },
        { "grep", "{\"pattern\":\"x\",\"glob\":\"*.txt\"}" },
        { "exec_command", "{\"cmd\":\"echo hello; printf err >&2\"}" },
    };

    (void)state;
    for (size_t i = 0; i < WALDO__COUNT(rows); i++) {
        size_t number = 0;
        int failed;

        do {
            void *made = NULL;
            fixture *f;
            waldo_tool *tool;

            assert_int_equal(fixture_setup(&made), 0);
            f = made;
            put(f, "a.txt", WALDO__S("one\ntwo\n"));
            put(f, "crlf", WALDO__S("a\r\nb\r\n"));
            put(f, "shot.gif", WALDO__S("GIF89a"));
            tool = tool_named(rows[i][0]);
            failed = call_with_failure(f, tool, rows[i][1], ++number);
            waldo_tool_unref(tool);
            assert_contains(reply_of(f, "read_file", "{\"path\":\"a.txt\"}"), "one\ntwo\n");
            fixture_teardown(&made);
            assert_true(number < 5000);
        } while (failed);
        assert_true(number > 5);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_walk) };

    failing_install();
    if (fixture_arguments(argc, argv) != 0) {
        return 2;
    }
    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
