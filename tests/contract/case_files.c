/* Files. */
#include "contract.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/rand.h"

#define CASE(function) cmocka_unit_test_setup_teardown(function, contract_setup, contract_teardown)

static void sizes(void **state)
{
    contract *c = *state;
    static const size_t lengths[] = { 0, 1, 95000, 98304, 98305, 131072, 5000000 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *bytes = waldo__alloc(lengths[i] + 1);
        outcome out;

        waldo__random(bytes, lengths[i]);
        write_file(c, "deep/er/file", waldo__strn(bytes, lengths[i]), 0, &out);
        assert_int_equal(out.status, WALDO_OK);
        outcome_free(&out);
        read_file(c, "/workspace/deep/er/file", 0, 8000000, &out);
        assert_int_equal(out.status, WALDO_OK);
        assert_int_equal(out.file_size, lengths[i]);
        assert_int_equal(out.bytes.len, lengths[i]);
        assert_memory_equal(waldo__buf_str(&out.bytes).ptr, bytes, lengths[i]);
        outcome_free(&out);
        waldo__free(bytes);
    }
}

static void ranges(void **state)
{
    contract *c = *state;
    outcome out;

    write_file(c, "f", waldo__str("0123456789"), 0, &out);
    outcome_free(&out);
    read_file(c, "f", 3, 4, &out);
    assert_string_equal(waldo__buf_str(&out.bytes).ptr, "3456");
    assert_int_equal(out.file_size, 10);
    outcome_free(&out);
    read_file(c, "f", 100, 4, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_int_equal(out.bytes.len, 0);
    outcome_free(&out);
}

static void modes(void **state)
{
    contract *c = *state;
    static const struct {
        uint32_t asked;
        uint32_t found;
    } steps[] = { { 0, 0644 }, { 0755, 0755 }, { 0, 0755 }, { 0600, 0600 } };
    outcome out;

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        write_file(c, "tool", waldo__str("x"), steps[i].asked, &out);
        assert_int_equal(out.status, WALDO_OK);
        outcome_free(&out);
        outcome_init(&out);
        waldo__sandbox_stat(c->sandbox, "tool", took_infos, &out);
        drive(c, &out);
        assert_int_equal(out.mode & 07777, steps[i].found);
        assert_true(S_ISREG(out.mode));
        outcome_free(&out);
    }
}

static void errors(void **state)
{
    contract *c = *state;
    static const struct {
        const char *path;
        waldo_status status;
    } reads[] = { { "missing", WALDO_ENOTFOUND },
                  { "/no/such", WALDO_ENOTFOUND },
                  { "/workspace", WALDO_EPATH },
                  { "../etc/passwd", WALDO_EPATH },
                  { "a/../../outside", WALDO_EPATH },
                  { "", WALDO_EPATH },
                  { "/../x", WALDO_EPATH } };
    outcome out;

    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        read_file(c, reads[i].path, 0, 10, &out);
        assert_int_equal(out.status, reads[i].status);
        assert_true(strlen(out.message) > 5);
        outcome_free(&out);
    }
    write_file(c, "f", waldo__str("x"), 0, &out);
    outcome_free(&out);
    write_file(c, "f/under", waldo__str("x"), 0, &out);
    assert_int_equal(out.status, WALDO_EPATH);
    outcome_free(&out);
    write_file(c, "../up", waldo__str("x"), 0, &out);
    assert_int_equal(out.status, WALDO_EPATH);
    outcome_free(&out);
}

static void changes_of_names(void **state)
{
    contract *c = *state;
    outcome out;

    outcome_init(&out);
    waldo__sandbox_mkdir(c->sandbox, "d/e", took_done, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    write_file(c, "d/e/one", waldo__str("1"), 0, &out);
    outcome_free(&out);
    write_file(c, "d/two", waldo__str("2"), 0, &out);
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_rename(c->sandbox, "d/two", "d/zwei", took_done, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_list(c->sandbox, ".", 1, 100, took_infos, &out);
    drive(c, &out);
    assert_string_equal(out.names, "d\nd/e\nd/e/one\nd/zwei\n");
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_list(c->sandbox, "d", 0, 100, took_infos, &out);
    drive(c, &out);
    assert_string_equal(out.names, "e\nzwei\n");
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_list(c->sandbox, ".", 1, 2, took_infos, &out);
    drive(c, &out);
    assert_int_equal(out.info_count, 2);
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_remove(c->sandbox, "d", 0, took_done, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_EEXISTS);
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_remove(c->sandbox, "d", 1, took_done, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    outcome_init(&out);
    waldo__sandbox_stat(c->sandbox, "d", took_infos, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_ENOTFOUND);
    outcome_free(&out);
}

static void links_that_lead_out(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    outcome out;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "ln -s /etc link; echo in > real; ln -s real inside"));
    waldo_exec_result_free(result);
    read_file(c, "link/passwd", 0, 100, &out);
    assert_int_equal(out.status, WALDO_EPATH);
    outcome_free(&out);
    read_file(c, "/workspace/link/passwd", 0, 100, &out);
    assert_int_equal(out.status, WALDO_EPATH);
    outcome_free(&out);
    write_file(c, "link/x", waldo__str("x"), 0, &out);
    assert_int_equal(out.status, WALDO_EPATH);
    outcome_free(&out);
    read_file(c, "inside", 0, 100, &out);
    assert_string_equal(waldo__buf_str(&out.bytes).ptr, "in\n");
    outcome_free(&out);
}

static void sparse_file(void **state)
{
    contract *c = *state;
    waldo_exec_result *result;
    outcome out;

    NEED(c, WALDO_BACKEND_CHANNEL);
    result = run(c, &WALDO_EXEC(.cmd = "truncate -s 2G big"));
    assert_int_equal(result->exit_code, 0);
    waldo_exec_result_free(result);
    read_file(c, "big", UINT64_C(2147483640), 100, &out);
    assert_int_equal(out.status, WALDO_OK);
    assert_int_equal(out.file_size, UINT64_C(2147483648));
    assert_int_equal(out.bytes.len, 8);
    outcome_free(&out);
}

/* They share the stream with each other and with commands; one fails before it is all sent. */
static void large_ones_at_once(void **state)
{
    enum { COUNT = 3, LENGTH = 6000000 };
    static const char *const paths[] = { "first", "f/second", "third" };
    contract *c = *state;
    char *bytes = waldo__zalloc(LENGTH);
    waldo_exec_result *result;
    outcome outs[COUNT], out;

    for (size_t i = 0; i < LENGTH; i++) {
        bytes[i] = (char)(i * 31 >> 8);
    }
    write_file(c, "f", waldo__str("x"), 0, &out);
    outcome_free(&out);
    for (int i = 0; i < COUNT; i++) {
        outcome_init(&outs[i]);
        waldo_sandbox_write(c->sandbox, paths[i], waldo__strn(bytes, LENGTH - (size_t)i), 0,
                            took_done, &outs[i]);
    }
    result = run(c, &WALDO_EXEC(.cmd = "echo meanwhile"));
    expect_text(&result->out, "meanwhile\n");
    waldo_exec_result_free(result);
    for (int i = 0; i < COUNT; i++) {
        drive(c, &outs[i]);
        if (i == 1) {
            assert_int_equal(outs[i].status, WALDO_EPATH);
        } else {
            assert_int_equal(outs[i].status, WALDO_OK);
            read_file(c, paths[i], 0, LENGTH + 1, &out);
            assert_int_equal(out.bytes.len, LENGTH - i);
            assert_memory_equal(out.bytes.ptr, bytes, LENGTH - (size_t)i);
            outcome_free(&out);
        }
        outcome_free(&outs[i]);
    }
    waldo__free(bytes);
}

static void disk_full(void **state)
{
    contract *c = *state;
    int fake = strcmp(c->backend->name, "fake") == 0;
    char *bytes;
    outcome out;

    if (!fake) {
        NEED(c, WALDO_BACKEND_LIMITS);
    }
    bytes = waldo__zalloc(3000000);
    waldo_sandbox_unref(c->sandbox);
    c->sandbox = other_sandbox(c, fake ? "space=1000000" : "tmp=1m", NULL, WALDO_WORKSPACE_COPY);
    write_file(c, "/tmp/big", waldo__strn(bytes, 3000000), 0, &out);
    assert_int_equal(out.status, WALDO_ENOSPACE);
    assert_non_null(strstr(out.message, "no space"));
    outcome_free(&out);
    write_file(c, "/tmp/small", waldo__str("x"), 0, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    waldo__free(bytes);
}

const struct CMUnitTest file_cases[] = {
    CASE(sizes),
    CASE(ranges),
    CASE(modes),
    CASE(errors),
    CASE(changes_of_names),
    CASE(links_that_lead_out),
    CASE(sparse_file),
    CASE(large_ones_at_once),
    CASE(disk_full),
};
const size_t file_case_count = sizeof file_cases / sizeof *file_cases;
