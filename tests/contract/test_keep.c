/*
 * Machines that are kept: specs with a name or a lease, saved states and what may be wrong with
 * them, who ends a machine and who lets it go. On a backend in memory that counts.
 */
#include "host.h"
#include "sandbox/registry.h"
#include "sandbox/spec.h"

static const waldo_backend_ops *fake;
static waldo_backend_ops keep;  /* has machines of any name */
static waldo_backend_ops other; /* has none */

/* What the backends were asked. */
static struct {
    int opens, closes, detaches, abandons;
    char saved[256];
    char name[64], attach[64];
    waldo_net net;
    int find;
    int64_t lease_ms;
    int reached; /* what describe is to say */
} seen;

static waldo_status keep_parse(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    (void)spec;
    (void)ret_err;
    return WALDO_OK;
}

static waldo_status keep_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                              waldo_str saved, const waldo_backend_call *call,
                              waldo_backend_done_fn done, waldo_machine **ret_machine,
                              waldo_error **ret_err)
{
    waldo_backend_spec plain = *spec;

    seen.opens++;
    snprintf(seen.saved, sizeof seen.saved, "%.*s", (int)saved.len, saved.ptr);
    snprintf(seen.name, sizeof seen.name, "%s", spec->name != NULL ? spec->name : "");
    seen.find = (spec->flags & WALDO_BACKEND_FIND) != 0;
    seen.lease_ms = spec->lease_ms;
    seen.net = spec->net;
    snprintf(seen.attach, sizeof seen.attach, "%s", spec->attach != NULL ? spec->attach : "");
    plain.option_count = 0;
    return fake->open(env, &plain, waldo__str(""), call, done, ret_machine, ret_err);
}

static waldo_status other_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                               waldo_str saved, const waldo_backend_call *call,
                               waldo_backend_done_fn done, waldo_machine **ret_machine,
                               waldo_error **ret_err)
{
    (void)env;
    (void)saved;
    (void)call;
    (void)done;
    (void)ret_machine;
    return waldo_error_set(ret_err, WALDO_ENOTFOUND, WALDO_CLASS_BACKEND, "other: no %s here",
                           spec->name);
}

static void keep_save(waldo_machine *machine, const waldo_backend_call *call,
                      waldo_backend_bytes_fn done)
{
    (void)machine;
    done(call->userdata, WALDO_OK, waldo__str("the \"machine\" itself"), NULL);
}

static void keep_close(waldo_machine *machine, const waldo_backend_call *call,
                       waldo_backend_done_fn done)
{
    seen.closes++;
    fake->close(machine, call, done);
}

static void keep_abandon(waldo_machine *machine)
{
    seen.abandons++;
    fake->abandon(machine);
}

static void keep_detach(waldo_machine *machine)
{
    seen.detaches++;
    fake->abandon(machine);
}

static void keep_describe(const waldo_machine *machine, waldo_machine_info *ret_info)
{
    (void)machine;
    ret_info->reached = seen.reached;
}

static void no_job(waldo_machine *machine, const char *job, uint64_t offset,
                   const waldo_backend_call *call, waldo_output_fn on_output,
                   waldo_backend_exec_fn done)
{
    (void)machine;
    (void)job;
    (void)offset;
    (void)on_output;
    done(call->userdata, WALDO_ENOTSUP, 0, 0, 0, NULL);
}

static int add_backends(void **state)
{
    (void)state;
    fake = waldo__backend_find(waldo__str("fake"));
    keep = *fake;
    keep.name = "keep";
    keep.caps |= WALDO_BACKEND_ATTACH | WALDO_BACKEND_ADOPT;
    keep.parse = keep_parse;
    keep.open = keep_open;
    keep.close = keep_close;
    keep.abandon = keep_abandon;
    keep.describe = keep_describe;
    keep.attach_job = no_job;
    assert_int_equal(waldo_backend_register(&keep, NULL), WALDO_EINVAL); /* save is missing */
    keep.save = keep_save;
    assert_int_equal(waldo_backend_register(&keep, NULL), WALDO_EINVAL); /* and detach */
    keep.detach = keep_detach;
    other = keep;
    other.name = "other";
    other.open = other_open;
    return waldo_backend_register(&other, NULL) != WALDO_OK ||
           waldo_backend_register(&keep, NULL) != WALDO_OK;
}

/* ---- one runtime and one sandbox ---- */

static void on_saved(void *userdata, waldo_status status, waldo_str saved, const waldo_error *error)
{
    told *t = userdata;

    told_done(userdata, status, error);
    if (status == WALDO_OK) {
        snprintf(t->text, sizeof t->text, "%.*s", (int)saved.len, saved.ptr);
    }
}

static void on_patch(void *userdata, waldo_status status, waldo_str patch, const waldo_error *error)
{
    (void)patch;
    told_done(userdata, status, error);
}

static waldo_sandbox_spec *spec_of(const char *text)
{
    return waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
}

static host host_of(const char *text)
{
    memset(&seen, 0, sizeof seen);
    return host_with(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
}

static told save(const host *h)
{
    told t = { 0 };

    waldo_sandbox_save(h->sandbox, on_saved, &t);
    host_wait(h, &t);
    return t;
}

static void expect_ends(int closes, int detaches, int abandons)
{
    assert_int_equal(seen.closes, closes);
    assert_int_equal(seen.detaches, detaches);
    assert_int_equal(seen.abandons, abandons);
}

/* ---- the cases ---- */

static void leases_and_names(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        int64_t lease_ms;
    } rows[] = {
        { "keep:", NULL, 0 },
        { "keep:,lease=60", NULL, 60000 },
        { "keep:,lease=1176h", NULL, INT64_C(1176) * 3600000 },
        { "keep:,name=lab", "lab", 86400000 },
        { "keep:,name=lab-2.b_C,lease=5m", "lab-2.b_C", 300000 },
    };
    waldo_sandbox_spec *spec;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec = spec_of(rows[i].text);
        assert_null(waldo_sandbox_spec_error(spec));
        assert_int_equal(spec->entries[0].lease_ms, rows[i].lease_ms);
        if (rows[i].name != NULL) {
            assert_string_equal(spec->entries[0].name, rows[i].name);
        } else {
            assert_null(spec->entries[0].name);
        }
        waldo_sandbox_spec_unref(spec);
    }
    spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("keep:", "keep:,name=own,lease=1"),
                            .name = "all", .lease_ms = 7000));
    assert_string_equal(spec->entries[0].name, "all");
    assert_int_equal(spec->entries[0].lease_ms, 7000);
    assert_string_equal(spec->entries[1].name, "own");
    assert_int_equal(spec->entries[1].lease_ms, 1000);
    waldo_sandbox_spec_unref(spec);
}

static void made_elsewhere(void **state)
{
    static const struct {
        const char *text;
        const char *words;
    } refused[] = {
        { "keep:,attach=", "attach must be the id" },
        { "keep:,attach=a b", "attach must be the id" },
        { "keep:,attach=x,name=lab", "name cannot be asked of it" },
        { "keep:,attach=x,spares=1", "spares cannot" },
        { "keep:,attach=x,memory=1g", "memory cannot" },
        { "keep:,attach=x,cpus=1", "cpus cannot" },
        { "keep:,attach=x,pids=9", "pids cannot" },
        { "keep:,attach=x,net=none", "net cannot" },
        { "@lab,attach=x", "@NAME cannot" },
        { "fake:,attach=x", "cannot use machines made elsewhere" },
    };
    host h = host_of("keep:,attach=some-1,lease=5,timeout=3");

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        waldo_sandbox_spec *spec = spec_of(refused[i].text);
        const char *said = waldo_error_message(waldo_sandbox_spec_error(spec));

        if (strstr(said, refused[i].words) == NULL) {
            fail_msg("%s: \"%s\"", refused[i].text, said);
        }
        waldo_sandbox_spec_unref(spec);
    }
    assert_int_equal(host_ask(&h, waldo_sandbox_open).status, WALDO_OK);
    assert_string_equal(seen.attach, "some-1");
    assert_int_equal(seen.net, WALDO_NET_DEFAULT);
    assert_non_null(strstr(waldo__sandbox_notes(h.sandbox), "as it was before"));
    assert_null(strstr(waldo__sandbox_notes(h.sandbox), "no network"));
    host_drop(&h);
}

/* A name alone is looked for wherever machines are kept, in the order of the backends. */
static void found_by_name(void **state)
{
    host h = host_of("@lab,timeout=3");
    told t = host_ask(&h, waldo_sandbox_open);

    (void)state;
    assert_int_equal(t.status, WALDO_OK);
    assert_string_equal(waldo_sandbox_backend(h.sandbox), "keep");
    assert_int_equal(seen.opens, 1);
    assert_string_equal(seen.name, "lab");
    assert_true(seen.find);
    host_drop(&h);
    expect_ends(0, 1, 0);
}

static void not_saved_without_a_lease(void **state)
{
    host h = host_of("keep:");
    told t = save(&h);

    (void)state;
    assert_int_equal(t.status, WALDO_ENOTSUP);
    assert_non_null(strstr(t.text, "lease="));
    t = host_ask(&h, waldo_sandbox_detach);
    assert_int_equal(t.status, WALDO_ENOTSUP);
    t = host_ask(&h, waldo_sandbox_open); /* it was left as it was */
    assert_int_equal(t.status, WALDO_OK);
    host_drop(&h);
    expect_ends(1, 0, 0);
}

static void who_ends_it(void **state)
{
    host h = host_of("keep:,lease=60");

    (void)state;
    host_ask(&h, waldo_sandbox_open);
    assert_int_equal(host_ask(&h, waldo_sandbox_close).status, WALDO_OK);
    expect_ends(1, 0, 0);
    host_drop(&h);
    h = host_of("keep:,lease=60");
    host_ask(&h, waldo_sandbox_open);
    host_drop(&h); /* nobody has its saved state, or could tell */
    expect_ends(1, 0, 0);
    h = host_of("keep:,lease=60");
    host_ask(&h, waldo_sandbox_open);
    assert_int_equal(host_ask(&h, waldo_sandbox_detach).status, WALDO_OK);
    assert_int_equal(host_ask(&h, waldo_sandbox_open).status, WALDO_ECLOSED);
    host_drop(&h);
    expect_ends(0, 1, 0);
    h = host_of("keep:,name=lab");
    host_ask(&h, waldo_sandbox_open);
    assert_int_equal(host_ask(&h, waldo_sandbox_close).status, WALDO_OK);
    host_drop(&h);
    expect_ends(0, 1, 0);
    h = host_of("keep:,name=lab");
    host_ask(&h, waldo_sandbox_open);
    waldo_sandbox_unref(h.sandbox);
    waldo_runtime_free(h.rt); /* without any wait */
    expect_ends(0, 1, 0);
    h = host_of("keep:,lease=60");
    host_ask(&h, waldo_sandbox_open);
    waldo_sandbox_unref(h.sandbox);
    waldo_runtime_free(h.rt);
    expect_ends(0, 0, 1);
    h = host_of("keep:,name=lab");
    assert_int_equal(host_ask(&h, waldo_sandbox_detach).status, WALDO_OK); /* it was never opened */
    host_drop(&h);
    expect_ends(0, 0, 0);
}

static void saved_and_reopened(void **state)
{
    host h = host_of("keep:,lease=60");
    told saved = save(&h);
    waldo_sandbox_spec *spec = spec_of("fake:");
    waldo_error *error = NULL;
    told t = { 0 };

    (void)state;
    assert_int_equal(saved.status, WALDO_OK);
    assert_null(strchr(saved.text, '\n'));
    assert_null(waldo_sandbox_open_saved(h.rt, spec, waldo__str(saved.text), &error));
    assert_int_equal(waldo_error_status(error), WALDO_EINVAL);
    assert_non_null(strstr(waldo_error_message(error), "\"keep\", which the spec does not name"));
    waldo_error_free(error);
    waldo_sandbox_spec_unref(spec);
    host_drop(&h);
    h = host_of("fake:");
    waldo_sandbox_unref(h.sandbox);
    spec = waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:", "keep:")));
    h.sandbox = waldo_sandbox_open_saved(h.rt, spec, waldo__str(saved.text), NULL);
    waldo_sandbox_spec_unref(spec);
    assert_non_null(h.sandbox);
    assert_string_equal(waldo_sandbox_backend(h.sandbox), "keep");
    seen.reached = 1;
    assert_int_equal(host_ask(&h, waldo_sandbox_open).status, WALDO_OK);
    assert_string_equal(seen.saved, "the \"machine\" itself");
    waldo_sandbox_changes(h.sandbox, on_patch, &t); /* it began empty: everything is new */
    host_wait(&h, &t);
    assert_int_equal(t.status, WALDO_OK);
    assert_string_equal(save(&h).text, saved.text);
    assert_int_equal(host_ask(&h, waldo_sandbox_close).status, WALDO_OK);
    host_drop(&h);
    expect_ends(1, 0, 0);
}

/* What is not known is not made up. */
static void hear(void *userdata, const char *what, const char *text)
{
    told *t = userdata;

    if (strcmp(what, "saved") == 0) {
        t->done++;
        snprintf(t->text, sizeof t->text, "%s", text);
    }
}

/* It is left to its lease; one that is reached in its place has its own workspace. */
static void lost_and_replaced(void **state)
{
    host h = host_of("fake:");
    told t = { 0 };
    waldo__sandbox_listener listener = { .fn = hear, .userdata = &t };
    waldo_exec_result *result = NULL;
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(
        &WALDO_SANDBOX_SPEC(.backends =
                                WALDO_STRINGS("keep:,lease=60", "keep:,name=lab", "fake:")));

    (void)state;
    waldo_sandbox_unref(h.sandbox);
    h.sandbox = waldo_sandbox_new(h.rt, spec);
    waldo_sandbox_spec_unref(spec);
    waldo__sandbox_listen(h.sandbox, &listener);
    host_ask(&h, waldo_sandbox_open);
    host_wait(&h, &t);
    assert_string_equal(t.text, save(&h).text);
    waldo__sandbox_checkpoint(h.sandbox);
    for (int i = 1; i <= 2; i++) {
        seen.reached = i == 1;
        assert_int_equal(waldo_sandbox_exec_wait(h.sandbox, &WALDO_EXEC(.cmd = "echo x > f; lose"),
                                                 &result, NULL),
                         WALDO_OK);
        assert_int_equal(result->end, WALDO_EXEC_LOST);
        waldo_exec_result_free(result);
        assert_int_equal(host_ask(&h, waldo_sandbox_open).status, WALDO_OK);
        expect_ends(0, i, 0);
        assert_non_null(strstr(waldo__sandbox_notice(h.sandbox, (size_t)i - 1),
                               i == 1 ? "as it was left there" : "seconds before the loss"));
    }
    assert_int_equal(seen.opens, 2);
    assert_string_equal(seen.name, "lab");
    assert_int_equal(t.done, 2);
    host_drop(&h);
}

static void changes_of_a_reached_machine(void **state)
{
    host h = host_of("keep:,name=lab");
    told t = { 0 };

    (void)state;
    seen.reached = 1;
    waldo_sandbox_changes(h.sandbox, on_patch, &t);
    host_wait(&h, &t);
    assert_int_equal(t.status, WALDO_ENOTSUP);
    assert_non_null(strstr(t.text, "was there before"));
    host_drop(&h);
    expect_ends(0, 1, 0);
}

static void bad_states(void **state)
{
    static const struct {
        const char *text;
        waldo_status status;
        const char *words;
    } rows[] = {
        { "", WALDO_EINVAL, "no saved sandbox" },
        { "rubbish", WALDO_EINVAL, "no saved sandbox" },
        { "{\"waldo\":\"sandbox\",\"version\":1,\"backend\":\"ke", WALDO_EINVAL, "not all of one" },
        { "[]", WALDO_EINVAL, "no saved sandbox" },
        { "{}", WALDO_EINVAL, "no saved sandbox" },
        { "{\"waldo\":\"run\",\"version\":1}", WALDO_EINVAL, "no saved sandbox" },
        { "{\"waldo\":\"sandbox\",\"version\":0}", WALDO_EINVAL, "no saved sandbox" },
        { "{\"waldo\":\"sandbox\",\"version\":2}", WALDO_ENOTSUP, "newer version" },
        { "{\"waldo\":\"sandbox\",\"version\":1,\"backend\":\"keep\",\"background\":0}",
          WALDO_EINVAL, "no machine" },
        { "{\"waldo\":\"sandbox\",\"version\":1,\"backend\":\"keep\",\"background\":-1,"
          "\"machine\":\"x\"}",
          WALDO_EINVAL, "no machine" },
        { "{\"waldo\":\"sandbox\",\"version\":1,\"backend\":\"keep\",\"background\":1e300,"
          "\"machine\":\"x\"}",
          WALDO_EINVAL, "no machine" },
        { "{\"waldo\":\"sandbox\",\"version\":1,\"backend\":\"nope\",\"background\":0,"
          "\"machine\":\"x\"}",
          WALDO_EINVAL, "does not name" },
        { "{\"waldo\":\"sandbox\",\"version\":1,\"backend\":\"fake\",\"background\":0,"
          "\"machine\":\"x\"}",
          WALDO_EINVAL, "keeps none" },
    };
    host h = host_of("fake:");
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS("fake:", "keep:")));
    waldo_sandbox_spec *wrong = spec_of("keep:,lease=x");
    waldo_error *error = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        error = NULL;
        assert_null(waldo_sandbox_open_saved(h.rt, spec, waldo__str(rows[i].text), &error));
        if (waldo_error_status(error) != rows[i].status ||
            strstr(waldo_error_message(error), rows[i].words) == NULL) {
            fail_msg("%s: %s: %s", rows[i].text, waldo_status_name(waldo_error_status(error)),
                     waldo_error_message(error));
        }
        waldo_error_free(error);
    }
    error = NULL;
    assert_null(waldo_sandbox_open_saved(h.rt, wrong, waldo__str("{}"), &error));
    assert_non_null(strstr(waldo_error_message(error), "lease"));
    waldo_error_free(error);
    assert_null(waldo_sandbox_open_saved(h.rt, NULL, waldo__str("{}"), NULL));
    assert_null(waldo_sandbox_open_saved(NULL, spec, waldo__str("{}"), NULL));
    waldo_sandbox_spec_unref(spec);
    waldo_sandbox_spec_unref(wrong);
    host_drop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_and_names),  cmocka_unit_test(made_elsewhere),
        cmocka_unit_test(found_by_name),     cmocka_unit_test(not_saved_without_a_lease),
        cmocka_unit_test(who_ends_it),       cmocka_unit_test(saved_and_reopened),
        cmocka_unit_test(lost_and_replaced), cmocka_unit_test(changes_of_a_reached_machine),
        cmocka_unit_test(bad_states),
    };

    return !!cmocka_run_group_tests(tests, add_backends, NULL);
}
