/* Sandbox strings, specs, notes, the table of backends. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "sandbox/live.h"
#include "sandbox/spec.h"

static waldo_sandbox_spec *spec_of(const char *text)
{
    return waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
}

static void good_strings(void **state)
{
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(
                                "fake:,timeout=90,idle=5m,memory=512m,cpus=1.5,pids=7,"
                                "env=A=1,env=B=x=y,net=none,min_isolation=none,open_ms=3"),
                            .env = WALDO_STRINGS("BASE=0"), .command_timeout_ms = 5));
    const waldo__spec_entry *entry;

    (void)state;
    assert_null(waldo_sandbox_spec_error(spec));
    entry = &spec->entries[0];
    assert_int_equal(entry->command_timeout_ms, 90000);
    assert_int_equal(entry->idle_ms, 300000);
    assert_int_equal(entry->memory_bytes, 512 << 20);
    assert_true(entry->cpus > 1.4 && entry->cpus < 1.6);
    assert_int_equal(entry->max_processes, 7);
    assert_int_equal(entry->net, WALDO_NET_NONE);
    assert_string_equal(entry->env[0], "BASE=0");
    assert_string_equal(entry->env[1], "A=1");
    assert_string_equal(entry->env[2], "B=x=y");
    assert_null(entry->env[3]);
    assert_int_equal(entry->option_count, 1);
    waldo_sandbox_spec_unref(spec);
}

static void bad_strings(void **state)
{
    static const struct {
        const char *text;
        waldo_status status;
        const char *words;
    } rows[] = {
        { "", WALDO_EINVAL, "local:, " },
        { "fake", WALDO_EINVAL, "has no colon" },
        { "nope:", WALDO_EINVAL, "one of: local:, " },
        { "@", WALDO_EINVAL, "behind the @" },
        { "@a/b", WALDO_EINVAL, "behind the @" },
        { "@lab,image=x", WALDO_EINVAL, "not known" },
        { "fake:,bad=1", WALDO_EINVAL, "net, cpus, memory" },
        { "fake:,bad=1", WALDO_EINVAL, "open_ms" },
        { "fake:,gpu=1", WALDO_ENOTSUP, "not offered" },
        { "fake:,name=lab", WALDO_ENOTSUP, "cannot keep machines" },
        { "local:,lease=60", WALDO_ENOTSUP, "cannot keep machines" },
        { "fake:,name=", WALDO_EINVAL, "1 to 48 letters" },
        { "fake:,name=.hidden", WALDO_EINVAL, "1 to 48 letters" },
        { "fake:,name=a/b", WALDO_EINVAL, "1 to 48 letters" },
        { "fake:,name=0123456789012345678901234567890123456789012345678", WALDO_EINVAL, "1 to 48" },
        { "fake:,lease=0", WALDO_EINVAL, "at most 49 days" },
        { "fake:,lease=1177h", WALDO_EINVAL, "at most 49 days" },
        { "fake:,attach=1", WALDO_ENOTSUP, "cannot use machines made elsewhere" },
        { "fake:,bad", WALDO_EINVAL, "KEY=VALUE" },
        { "fake:,=x", WALDO_EINVAL, "KEY=VALUE" },
        { "fake:,", WALDO_EINVAL, "KEY=VALUE" },
        { "fake:target", WALDO_EINVAL, "no target" },
        { "fake:,net=lan", WALDO_EINVAL, "none, packages, hosts or all" },
        { "fake:,net=all", WALDO_ENOTSUP, "cannot be had" },
        { "fake:,memory=1x", WALDO_EINVAL, "512m" },
        { "fake:,memory=99999999999999999999", WALDO_EINVAL, "512m" },
        { "fake:,memory=9223372036854775807t", WALDO_EINVAL, "512m" },
        { "fake:,timeout=0", WALDO_EINVAL, "timeout" },
        { "fake:,timeout=-1", WALDO_EINVAL, "timeout" },
        { "fake:,cpus=nan", WALDO_EINVAL, "cpus" },
        { "fake:,cpus=1e3", WALDO_EINVAL, "cpus" },
        { "fake:,pids=0", WALDO_EINVAL, "pids" },
        { "fake:,env=X", WALDO_EINVAL, "NAME=value" },
        { "fake:,min_isolation=vm", WALDO_ENOTSUP, "min_isolation is vm" },
        { "local:,min_isolation=container", WALDO_ENOTSUP, "separates by process only" },
        { "local:,net=packages", WALDO_ENOTSUP, "net=none or net=all" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        waldo_sandbox_spec *spec = spec_of(rows[i].text);
        const waldo_error *error = waldo_sandbox_spec_error(spec);

        if (waldo_error_status(error) != rows[i].status ||
            strstr(waldo_error_message(error), rows[i].words) == NULL) {
            fail_msg("%s: %s: %s", rows[i].text, waldo_status_name(waldo_error_status(error)),
                     waldo_error_message(error));
        }
        waldo_sandbox_spec_unref(spec);
    }
}

static void bad_options(void **state)
{
    const waldo_sandbox_spec_options rows[] = {
        { .size = 0 },
        { .size = sizeof rows[0] },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .workspace_mode = 3 },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .flags = 1 },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .idle_ms = -1 },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .lease_ms = -1 },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .lease_ms = INT64_MAX },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .name = "a b" },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .env = WALDO_STRINGS("X") },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .workspace = "" },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .workspace = "/no/where" },
        { .size = sizeof rows[0], .backends = WALDO_STRINGS("fake:"), .workspace = "/etc/passwd" },
        { .size = sizeof rows[0],
          .backends = WALDO_STRINGS("fake:"),
          .workspace = "/tmp",
          .workspace_mode = WALDO_WORKSPACE_RW },
        { .size = sizeof rows[0],
          .backends = WALDO_STRINGS("local:"),
          .workspace_mode = WALDO_WORKSPACE_RO },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        waldo_sandbox_spec *spec = waldo_sandbox_spec_new(&rows[i]);

        assert_non_null(waldo_sandbox_spec_error(spec));
        assert_string_equal(waldo__sandbox_spec_notes(spec), "");
        waldo_sandbox_spec_unref(spec);
    }
    assert_null(waldo_sandbox_spec_error(NULL));
    waldo_sandbox_spec_unref(NULL);
}

static void derived(void **state)
{
    waldo_sandbox_spec *base =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:"),
                                                   .env = WALDO_STRINGS("A=1"), .idle_ms = 9));
    waldo_sandbox_spec *spec =
        waldo__sandbox_spec_derive(base, "local:,timeout=3", "/tmp", WALDO_WORKSPACE_RW);

    (void)state;
    waldo_sandbox_spec_unref(base);
    assert_null(waldo_sandbox_spec_error(spec));
    assert_string_equal(spec->entries[0].ops->name, "local");
    assert_string_equal(spec->entries[0].env[0], "A=1");
    assert_int_equal(spec->entries[0].idle_ms, 9);
    assert_int_equal(spec->entries[0].command_timeout_ms, 3000);
    assert_string_equal(spec->workspace, "/tmp");
    assert_non_null(strstr(waldo__sandbox_spec_notes(spec), "user's own directory"));
    assert_non_null(strstr(waldo__sandbox_spec_notes(spec), "no network"));
    base = waldo__sandbox_spec_derive(spec, NULL, NULL, WALDO_WORKSPACE_COPY);
    assert_int_equal(base->options.workspace_mode, WALDO_WORKSPACE_RW);
    assert_string_equal(base->workspace, "/tmp");
    waldo_sandbox_spec_unref(base);
    waldo_sandbox_spec_unref(spec);
    spec = waldo__sandbox_spec_derive(NULL, "fake:", NULL, WALDO_WORKSPACE_COPY);
    assert_null(waldo_sandbox_spec_error(spec));
    waldo_sandbox_spec_unref(spec);
}

static waldo_status any_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    (void)spec;
    (void)ret_err;
    return WALDO_OK;
}

static void registration(void **state)
{
    static const char *const none[] = { NULL };
    static waldo_backend_ops ops;
    const waldo_backend_ops *fake = waldo__backend_find(waldo__str("fake"));
    waldo_error *error = NULL;
    waldo_sandbox_spec *spec;

    (void)state;
    ops = *fake;
    ops.parse = any_parse;
    ops.option_names = none;
    assert_int_equal(waldo_backend_register(&ops, &error), WALDO_EEXISTS);
    waldo_error_free(error);
    error = NULL;
    ops.name = "Bad Name";
    assert_int_equal(waldo_backend_register(&ops, NULL), WALDO_EINVAL);
    ops.name = "mine";
    ops.file_list = NULL;
    assert_int_equal(waldo_backend_register(&ops, &error), WALDO_EINVAL);
    assert_non_null(strstr(waldo_error_message(error), "file_list"));
    waldo_error_free(error);
    ops.file_list = fake->file_list;
    ops.close = NULL;
    assert_int_equal(waldo_backend_register(&ops, NULL), WALDO_EINVAL);
    ops.close = fake->close;
    ops.caps &= ~(uint32_t)WALDO_BACKEND_EXEC1;
    assert_int_equal(waldo_backend_register(&ops, NULL), WALDO_EINVAL);
    ops.caps = fake->caps;
    ops.version = WALDO_BACKEND_VERSION + 1;
    assert_int_equal(waldo_backend_register(&ops, NULL), WALDO_EINVAL);
    ops.version = WALDO_BACKEND_VERSION;
    ops.isolation = WALDO_ISOLATION_ANY;
    assert_int_equal(waldo_backend_register(&ops, NULL), WALDO_EINVAL);
    ops.isolation = WALDO_ISOLATION_VM;
    assert_int_equal(waldo_backend_register(&ops, NULL), WALDO_OK);
    assert_int_equal(waldo_backend_register(NULL, NULL), WALDO_EINVAL);
    spec = spec_of("mine:here,min_isolation=vm");
    assert_null(waldo_sandbox_spec_error(spec));
    assert_true(waldo__str_is(spec->entries[0].target, "here"));
    waldo_sandbox_spec_unref(spec);
}

static void paths(void **state)
{
    static const struct {
        const char *path;
        const char *normal; /* NULL: refused */
        int beneath;
    } rows[] = {
        { "a/b", "a/b", 1 },
        { "./a//b/", "a/b", 1 },
        { ".", ".", 1 },
        { "/workspace", ".", 1 },
        { "/workspace/x", "x", 1 },
        { "/workspacex", "/workspacex", 0 },
        { "/tmp/../etc", "/etc", 0 },
        { "a/../b", "b", 1 },
        { "..", NULL, 0 },
        { "a/../../b", NULL, 0 },
        { "/..", NULL, 0 },
        { "", NULL, 0 },
        { "/", "/", 0 },
        { "/workspace/../tmp", "/tmp", 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        waldo__path path = { 0 };
        waldo_status status = waldo__path_parse(rows[i].path, &path, NULL);

        if (rows[i].normal == NULL) {
            assert_int_equal(status, WALDO_EPATH);
            continue;
        }
        assert_int_equal(status, WALDO_OK);
        assert_string_equal(path.text, rows[i].normal);
        assert_int_equal(path.beneath, rows[i].beneath);
        waldo__free(path.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_strings), cmocka_unit_test(bad_strings),
        cmocka_unit_test(bad_options),  cmocka_unit_test(derived),
        cmocka_unit_test(registration), cmocka_unit_test(paths),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
