/* Machines that exist: lists of several backends, failures, ends by id; whose a process is. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ident.h"
#include "sandbox/registry.h"
#include "sandbox/sandbox.h"

/* ---- two backends that list: one fails after its second machine ---- */

static char ended[64];

static void list_good(const waldo_backend_env *env, const waldo_backend_call *call,
                      waldo_backend_id_fn each, waldo_backend_done_fn done)
{
    /* one from before the members behind it were known */
    const waldo_sandbox_info old = { .size = offsetof(waldo_sandbox_info, owner_alive),
                                     .state = WALDO_MACHINE_PAUSED,
                                     .owner_alive = 1 };
    const waldo_sandbox_info whole = { .size = sizeof whole,
                                       .state = WALDO_MACHINE_RUNNING,
                                       .owner_alive = 1,
                                       .mine = 1,
                                       .backend = "overwritten",
                                       .id = "one",
                                       .name = "lab",
                                       .owner = "me",
                                       .about = "image",
                                       .created_ms = 5,
                                       .expires_ms = 6,
                                       .lease_ms = 7 };

    (void)env;
    each(call->userdata, &old);
    each(call->userdata, &whole);
    done(call->userdata, WALDO_OK, NULL);
}

static void list_bad(const waldo_backend_env *env, const waldo_backend_call *call,
                     waldo_backend_id_fn each, waldo_backend_done_fn done)
{
    const waldo_sandbox_info info = { .size = sizeof info, .id = "three" };
    waldo_error *error = NULL;

    (void)env;
    each(call->userdata, &info);
    waldo_error_set(&error, WALDO_EQUOTA, WALDO_CLASS_BACKEND, "no more for today");
    done(call->userdata, WALDO_EQUOTA, error);
    waldo_error_free(error);
}

static void destroy_good(const waldo_backend_env *env, const waldo_backend_call *call,
                         const char *id, waldo_backend_done_fn done)
{
    (void)env;
    snprintf(ended, sizeof ended, "%s", id);
    done(call->userdata, strcmp(id, "one") == 0 ? WALDO_OK : WALDO_ENOTFOUND, NULL);
}

static waldo_backend_ops bad_ops, good_ops;

static void add_backends(void)
{
    const waldo_backend_ops *fake = waldo__backend_find(waldo__str("fake"));

    bad_ops = good_ops = *fake;
    bad_ops.name = "badlist";
    bad_ops.list_sandboxes = list_bad;
    bad_ops.destroy_id = NULL;
    good_ops.name = "goodlist";
    good_ops.list_sandboxes = list_good;
    good_ops.destroy_id = destroy_good;
    if (waldo_backend_register(&bad_ops, NULL) != WALDO_OK ||
        waldo_backend_register(&good_ops, NULL) != WALDO_OK) {
        abort();
    }
}

/* ---- what came ---- */

typedef struct told {
    int count;
    waldo_sandbox_info infos[4];
    char texts[4][96];
    int done;
    waldo_status status;
    char message[512];
} told;

static void on_each(void *userdata, const waldo_sandbox_info *info)
{
    told *all = userdata;

    if (all->count < 4) {
        all->infos[all->count] = *info;
        snprintf(all->texts[all->count], sizeof all->texts[0], "%s %s %s %s %s", info->backend,
                 info->id, info->name, info->owner, info->about);
    }
    all->count++;
}

static void on_done(void *userdata, waldo_status status, const waldo_error *error)
{
    told *all = userdata;

    all->done++;
    all->status = status;
    snprintf(all->message, sizeof all->message, "%s", waldo_error_message(error));
}

static void drive(waldo_runtime *rt, const told *all)
{
    while (!all->done) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    waldo_runtime_step(rt, 0);
    assert_int_equal(all->done, 1);
}

static void all_backends_are_listed(void **state)
{
    waldo_runtime *rt = *state;
    told all = { .done = 0 };

    waldo_sandbox_list(rt, on_each, on_done, &all);
    assert_int_equal(all.count + all.done, 0); /* nothing is called from inside */
    drive(rt, &all);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.texts[0], "badlist three   ");
    assert_string_equal(all.texts[1], "goodlist    ");
    assert_int_equal(all.infos[1].state, WALDO_MACHINE_PAUSED);
    assert_int_equal(all.infos[1].owner_alive, -1);
    assert_int_equal(all.infos[1].size, sizeof(waldo_sandbox_info));
    assert_string_equal(all.texts[2], "goodlist one lab me image");
    assert_int_equal(all.infos[2].owner_alive, 1);
    assert_int_equal(all.infos[2].lease_ms, 7);
    assert_true(all.status != WALDO_OK);
}

/* The docker backend has no engine here: its failure comes first, when it was built in. */
static void failures_name_their_backend(void **state)
{
    waldo_runtime *rt = *state;
    const int has_docker = waldo__backend_find(waldo__str("docker")) != NULL;
    told all = { .done = 0 };

    waldo_sandbox_list(rt, on_each, on_done, &all);
    drive(rt, &all);
    assert_int_equal(all.status, has_docker ? WALDO_EUNAVAILABLE : WALDO_EQUOTA);
    assert_non_null(strstr(all.message, has_docker ? "docker: " : "badlist: no more for today"));
    assert_ptr_equal(strstr(all.message, "docker: docker"), NULL);
}

static void ends_by_id(void **state)
{
    waldo_runtime *rt = *state;
    static const struct {
        const char *backend;
        const char *id;
        waldo_status status;
        const char *words;
    } rows[] = { { "goodlist", "one", WALDO_OK, "" },
                 { "goodlist", "two", WALDO_ENOTFOUND, "goodlist: not found" },
                 { "goodlist", "", WALDO_EINVAL, "no id" },
                 { "goodlist", NULL, WALDO_EINVAL, "no id" },
                 { "nope", "one", WALDO_EINVAL, "no backend \"nope\"" },
                 { NULL, "one", WALDO_EINVAL, "no backend" },
                 { "badlist", "one", WALDO_ENOTSUP, "cannot be ended by id" } };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        told all = { .done = 0 };

        ended[0] = '\0';
        waldo_sandbox_destroy(rt, rows[i].backend, rows[i].id, on_done, &all);
        assert_int_equal(all.done, 0);
        drive(rt, &all);
        assert_int_equal(all.status, rows[i].status);
        assert_non_null(strstr(all.message, rows[i].words));
        assert_string_equal(ended, rows[i].status == WALDO_OK || rows[i].status == WALDO_ENOTFOUND
                                       ? rows[i].id
                                       : "");
    }
}

static void nobody_has_to_listen(void **state)
{
    waldo_runtime *rt = *state;
    told all = { .done = 0 };

    waldo_sandbox_destroy(rt, "goodlist", "one", NULL, NULL);
    waldo_sandbox_destroy(rt, "nope", "one", NULL, NULL);
    waldo_sandbox_list(rt, on_each, NULL, &all);
    while (all.count < 3) {
        assert_int_equal(waldo_runtime_step(rt, 60000), WALDO_OK);
    }
    waldo_runtime_step(rt, 0);
}

/* ---- whether a process lives ---- */

static int alive(const waldo__ident *who)
{
    return waldo__ident_alive(waldo__str(who->pid), waldo__str(who->start), waldo__str(who->host));
}

static int mine(const waldo__ident *who)
{
    return waldo__ident_is_mine(waldo__str(who->user), waldo__str(who->start),
                                waldo__str(who->host));
}

static void this_process_lives(void **state)
{
    waldo__ident self;

    (void)state;
    waldo__ident_self(&self);
    assert_int_equal(alive(&self), 1);
    assert_int_equal(mine(&self), 1);
}

/* The number of a process may be used again, by one that started later. */
static void another_start_is_another_process(void **state)
{
    waldo__ident other;

    (void)state;
    waldo__ident_self(&other);
    other.start[strlen(other.start) - 1] ^= 1;
    assert_int_equal(alive(&other), 0);
}

static void dead_and_unreaped_processes(void **state)
{
    waldo__ident child;
    int pipe_of[2];
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(pipe_of), 0);
    pid = fork();
    if (pid == 0) {
        waldo__ident self;

        waldo__ident_self(&self);
        _exit(write(pipe_of[1], &self, sizeof self) != sizeof self);
    }
    assert_true(pid > 0);
    assert_int_equal(read(pipe_of[0], &child, sizeof child), sizeof child);
    /* A zombie, once it has ended: it is left unreaped. */
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ .si_pid = 0 }, WEXITED | WNOWAIT), 0);
    assert_int_equal(alive(&child), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(alive(&child), 0);
    close(pipe_of[0]);
    close(pipe_of[1]);
}

static void other_machines_boots_and_namespaces(void **state)
{
    waldo__ident self, other;
    char *slash;
    int has_machine;

    (void)state;
    waldo__ident_self(&self);
    has_machine = self.host[0] != '/';

    other = self; /* the same boot, another process namespace */
    strchr(other.host, '/')[1] = '7';
    strchr(other.host, '/')[2] = '\0';
    assert_int_equal(alive(&other), -1);
    assert_int_equal(mine(&other), 1);

    other = self; /* the machine was restarted since */
    other.start[0] = other.start[0] == 'a' ? 'b' : 'a';
    assert_int_equal(alive(&other), has_machine ? 0 : -1);
    assert_int_equal(mine(&other), has_machine);

    slash = strchr(self.host, '/'); /* another machine */
    snprintf(other.host, sizeof other.host, "%016x%s", 1, slash);
    assert_int_equal(alive(&other), -1);
    assert_int_equal(mine(&other), 0);

    other = self;
    snprintf(other.user, sizeof other.user, "%u", (unsigned)getuid() + 1);
    assert_int_equal(mine(&other), 0);
}

static void labels_that_say_nothing(void **state)
{
    waldo__ident self;
    waldo_str none = { "", 0 };

    (void)state;
    waldo__ident_self(&self);
    assert_int_equal(waldo__ident_alive(none, none, none), -1);
    assert_int_equal(waldo__ident_alive(waldo__str(self.pid), none, none), -1);
    assert_int_equal(
        waldo__ident_alive(waldo__str("-1"), waldo__str(self.start), waldo__str(self.host)), -1);
    assert_int_equal(waldo__ident_alive(waldo__str("99999999999"), waldo__str(self.start),
                                        waldo__str(self.host)),
                     -1);
    assert_int_equal(waldo__ident_is_mine(none, none, none), -1);
    assert_int_equal(waldo__ident_is_mine(waldo__str(self.user), none, none), 0);
}

static int open_runtime(void **state)
{
    setenv("DOCKER_HOST", "unix:///nonexistent/engine.sock", 1);
    *state = waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN));
    return *state == NULL;
}

static int close_runtime(void **state)
{
    waldo_runtime_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(all_backends_are_listed),
        cmocka_unit_test(failures_name_their_backend),
        cmocka_unit_test(ends_by_id),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(this_process_lives),
        cmocka_unit_test(another_start_is_another_process),
        cmocka_unit_test(dead_and_unreaped_processes),
        cmocka_unit_test(other_machines_boots_and_namespaces),
        cmocka_unit_test(labels_that_say_nothing),
    };

    add_backends();
    return !!cmocka_run_group_tests(cases, open_runtime, close_runtime);
}
