/* Ports, the network and pauses that fail: on a backend in memory that notes what it is asked. */
#include "host.h"
#include "sandbox/registry.h"
#include <waldo/machine.h>

static waldo_backend_ops cloud;
static int resumes;
static char net[128]; /* as it was set last */

/* Completions come from the run queue, as those of the file operations. */
typedef struct asked {
    waldo__task task;
    waldo_backend_done_fn done;
    waldo_backend_bytes_fn bytes;
    void *userdata;
    waldo_status status;
    char text[128];
} asked;

static waldo__loop *loop;
static asked last;

static void answer(void *userdata)
{
    (void)userdata;
    if (last.bytes != NULL) {
        last.bytes(last.userdata, last.status, waldo__str(last.text), NULL);
    } else {
        last.done(last.userdata, last.status, NULL);
    }
}

static void cloud_port_url(waldo_machine *machine, uint32_t port, const waldo_backend_call *call,
                           waldo_backend_bytes_fn done)
{
    (void)machine;
    last = (asked){ .bytes = done, .userdata = call->userdata };
    snprintf(last.text, sizeof last.text, "https://%u.example", (unsigned)port);
    waldo__task_init(&last.task, answer, NULL);
    waldo__task_queue(loop, &last.task);
}

static void cloud_set_net(waldo_machine *machine, waldo_net level, const char *const *hosts,
                          const waldo_backend_call *call, waldo_backend_done_fn done)
{
    (void)machine;
    last = (asked){ .done = done, .userdata = call->userdata };
    snprintf(net, sizeof net, "%d", (int)level);
    for (size_t i = 0; hosts[i] != NULL; i++) {
        size_t used = strlen(net);

        snprintf(net + used, sizeof net - used, " %s", hosts[i]);
        last.status = strcmp(hosts[i], "refused") == 0 ? WALDO_EUNAVAILABLE : WALDO_OK;
    }
    waldo__task_init(&last.task, answer, NULL);
    waldo__task_queue(loop, &last.task);
}

static const waldo_backend_ops *fake;

static waldo_status cloud_open(const waldo_backend_env *env, const waldo_backend_spec *spec,
                               waldo_str saved, const waldo_backend_call *call,
                               waldo_backend_done_fn done, waldo_machine **ret_machine,
                               waldo_error **ret_err)
{
    loop = env->loop;
    return fake->open(env, spec, saved, call, done, ret_machine, ret_err);
}

static void cloud_resume(waldo_machine *machine, const waldo_backend_call *call,
                         waldo_backend_done_fn done)
{
    resumes++;
    fake->resume(machine, call, done);
}

static int add_backend(void **state)
{
    (void)state;
    fake = waldo__backend_find(waldo__str("fake"));
    cloud = *fake;
    cloud.name = "cloud";
    cloud.caps |= WALDO_BACKEND_PORTS | WALDO_BACKEND_SET_NET | WALDO_BACKEND_NET_HOSTS |
                  WALDO_BACKEND_NET_ALL;
    cloud.open = cloud_open;
    assert_int_equal(waldo_backend_register(&cloud, NULL), WALDO_EINVAL); /* without the ops */
    cloud.port_url = cloud_port_url;
    assert_int_equal(waldo_backend_register(&cloud, NULL), WALDO_EINVAL);
    cloud.set_net = cloud_set_net;
    cloud.resume = NULL;
    assert_int_equal(waldo_backend_register(&cloud, NULL), WALDO_EINVAL);
    cloud.resume = cloud_resume;
    return waldo_backend_register(&cloud, NULL) != WALDO_OK;
}

static void on_url(void *userdata, waldo_status status, waldo_str url, const waldo_error *error)
{
    told *t = userdata;

    told_done(userdata, status, error);
    if (status == WALDO_OK) {
        snprintf(t->text, sizeof t->text, "%s", url.ptr);
    }
}

static host host_of(const char *text, const char *next)
{
    static const char *const hosts[] = { "one.example", "two.example", NULL };

    return host_with(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text, next), .hosts = hosts));
}

static told set_net(host *h, waldo_net level, const char *const *hosts)
{
    told t = { 0 };

    waldo_sandbox_set_net(h->sandbox, level, hosts, told_done, &t);
    return host_wait(h, &t);
}

static void urls(void **state)
{
    host h = host_of("cloud:", NULL);
    told urls_told[3] = { { 0 }, { 0 }, { 0 } };

    (void)state;
    waldo_sandbox_port_url(h.sandbox, 8080, on_url, &urls_told[0]);
    waldo_sandbox_port_url(h.sandbox, 0, on_url, &urls_told[1]);
    waldo_sandbox_port_url(h.sandbox, 65536, on_url, &urls_told[2]);
    assert_string_equal(host_wait(&h, &urls_told[0]).text, "https://8080.example");
    assert_int_equal(host_wait(&h, &urls_told[1]).status, WALDO_EINVAL);
    assert_int_equal(host_wait(&h, &urls_told[2]).status, WALDO_EINVAL);
    host_drop(&h);
}

static void levels(void **state)
{
    host h = host_of("cloud:,net=hosts", NULL);

    (void)state;
    assert_int_equal(set_net(&h, WALDO_NET_ALL, NULL).status, WALDO_OK);
    assert_string_equal(net, "4");
    assert_int_equal(set_net(&h, WALDO_NET_HOSTS, WALDO_STRINGS("a", "b")).status, WALDO_OK);
    assert_string_equal(net, "3 a b");
    assert_int_equal(set_net(&h, WALDO_NET_NONE, NULL).status, WALDO_OK);
    assert_string_equal(net, "1");
    assert_int_equal(set_net(&h, WALDO_NET_DEFAULT, NULL).status, WALDO_OK); /* the recipe's */
    assert_string_equal(net, "3 one.example two.example");
    assert_int_equal(set_net(&h, WALDO_NET_HOSTS, WALDO_STRINGS("refused")).status,
                     WALDO_EUNAVAILABLE);
    net[0] = '\0';
    assert_int_equal(set_net(&h, WALDO_NET_HOSTS, NULL).status, WALDO_EINVAL);
    assert_int_equal(set_net(&h, WALDO_NET_ALL, WALDO_STRINGS("a")).status, WALDO_EINVAL);
    assert_int_equal(set_net(&h, WALDO_NET_ALL + 1, NULL).status, WALDO_EINVAL);
    assert_int_equal(set_net(&h, -1, NULL).status, WALDO_EINVAL);
    assert_int_equal(set_net(&h, WALDO_NET_PACKAGES, NULL).status, WALDO_ENOTSUP);
    assert_string_equal(net, "");
    host_drop(&h);
}

/* The recipe's level is that of the backend which is used at last. */
static void default_level_of_another_backend(void **state)
{
    host h = host_of("fake:,fail=open", "cloud:,net=all");
    told t = { 0 };

    (void)state;
    net[0] = '\0';
    waldo_sandbox_set_net(h.sandbox, WALDO_NET_DEFAULT, NULL, told_done, &t);
    assert_int_equal(host_wait(&h, &t).status, WALDO_OK);
    assert_string_equal(waldo_sandbox_backend(h.sandbox), "cloud");
    assert_string_equal(net, "4");
    assert_int_equal(set_net(&h, WALDO_NET_DEFAULT, WALDO_STRINGS("a")).status, WALDO_EINVAL);
    host_drop(&h);
}

static void pause_that_fails(void **state)
{
    host h = host_of("cloud:,fail=pause", NULL);
    told paused = { 0 };
    told next = { 0 };

    (void)state;
    host_ask(&h, waldo_sandbox_open);
    resumes = 0;
    waldo_sandbox_pause(h.sandbox, told_done, &paused);
    waldo_sandbox_open(h.sandbox, told_done, &next); /* waits for what becomes of it */
    assert_int_equal(host_wait(&h, &next).status, WALDO_OK);
    assert_int_equal(host_wait(&h, &paused).status, WALDO_EUNAVAILABLE);
    assert_int_equal(resumes, 0);
    host_drop(&h);
}

static void resume_that_fails(void **state)
{
    host h = host_of("cloud:,fail=resume", NULL);
    told t;

    (void)state;
    host_ask(&h, waldo_sandbox_open);
    assert_int_equal(host_ask(&h, waldo_sandbox_pause).status, WALDO_OK);
    t = host_ask(&h, waldo_sandbox_open);
    assert_int_equal(t.status, WALDO_ELOST);
    assert_non_null(strstr(t.text, "the machine was paused; nor can it be reached again"));
    assert_int_equal(host_ask(&h, waldo_sandbox_pause).status, WALDO_ELOST);
    host_drop(&h);
}

/* Who pauses a machine that does not come back goes on in the next one, which is not paused. */
static void resume_that_fails_with_another_backend(void **state)
{
    host h = host_of("cloud:,fail=resume", "fake:");

    (void)state;
    host_ask(&h, waldo_sandbox_open);
    assert_int_equal(host_ask(&h, waldo_sandbox_pause).status, WALDO_OK);
    assert_int_equal(host_ask(&h, waldo_sandbox_resume).status, WALDO_OK);
    assert_string_equal(waldo_sandbox_backend(h.sandbox), "fake");
    assert_int_equal(waldo_sandbox_generation(h.sandbox), 2);
    assert_int_equal(host_ask(&h, waldo_sandbox_pause).status, WALDO_OK);
    assert_int_equal(host_ask(&h, waldo_sandbox_open).status, WALDO_OK);
    host_drop(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
        cmocka_unit_test(levels),
        cmocka_unit_test(default_level_of_another_backend),
        cmocka_unit_test(pause_that_fails),
        cmocka_unit_test(resume_that_fails),
        cmocka_unit_test(resume_that_fails_with_another_backend),
    };

    return !!cmocka_run_group_tests(tests, add_backend, NULL);
}
