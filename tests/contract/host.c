#include "host.h"

host host_with(const waldo_sandbox_spec_options *options)
{
    waldo_sandbox_spec *spec = waldo_sandbox_spec_new(options);
    host h = { .rt = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_ERROR)) };

    assert_null(waldo_sandbox_spec_error(spec));
    h.sandbox = waldo_sandbox_new(h.rt, spec);
    waldo_sandbox_spec_unref(spec);
    return h;
}

void host_drop(host *h)
{
    waldo_sandbox_unref(h->sandbox);
    waldo_runtime_finish(h->rt);
}

void told_done(void *userdata, waldo_status status, const waldo_error *error)
{
    told *t = userdata;

    t->done++;
    t->status = status;
    snprintf(t->text, sizeof t->text, "%s", waldo_error_message(error));
}

told host_wait(const host *h, told *t)
{
    while (!t->done) {
        assert_int_equal(waldo_runtime_step(h->rt, 60000), WALDO_OK);
    }
    assert_int_equal(t->done, 1);
    return *t;
}

told host_ask(const host *h, void (*function)(waldo_sandbox *, waldo_sandbox_fn, void *))
{
    told t = { 0 };

    function(h->sandbox, told_done, &t);
    assert_int_equal(t.done, 0);
    return host_wait(h, &t);
}
