#include "contract.h"

#include <ftw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/live.h"
#include "sandbox/registry.h"

enum { OUTCOME_MAX = 256 * 1024 * 1024 };

extern const char *contract_backend; /* set by main */

void outcome_init(outcome *out)
{
    memset(out, 0, sizeof *out);
    waldo__buf_init(&out->bytes, OUTCOME_MAX);
}

void outcome_free(outcome *out)
{
    waldo__buf_free(&out->bytes);
}

static void take(outcome *out, waldo_status status, const waldo_error *error)
{
    out->count++;
    out->status = status;
    snprintf(out->message, sizeof out->message, "%s", waldo_error_message(error));
}

void took_done(void *userdata, waldo_status status, const waldo_error *error)
{
    take(userdata, status, error);
}

void took_bytes(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                const waldo_error *error)
{
    outcome *out = userdata;

    take(out, status, error);
    waldo__buf_add_str(&out->bytes, bytes);
    out->file_size = file_size;
}

void took_infos(void *userdata, waldo_status status, const waldo_file_info *infos, size_t count,
                const waldo_error *error)
{
    outcome *out = userdata;

    take(out, status, error);
    out->info_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(out->names);

        snprintf(out->names + used, sizeof out->names - used, "%.*s\n", (int)infos[i].name.len,
                 infos[i].name.ptr);
    }
    if (count > 0) {
        out->mode = infos[0].mode;
        out->size = infos[0].bytes;
    }
}

void took_patch(void *userdata, waldo_status status, waldo_str patch, const waldo_error *error)
{
    took_bytes(userdata, status, patch, patch.len, error);
}

void drive(contract *c, outcome *out)
{
    for (int i = 0; out->count == 0; i++) {
        waldo_status status = waldo_runtime_step(c->rt, 60000);

        if (status != WALDO_OK) {
            fail_msg("nothing happened for a minute (%s)", waldo_status_name(status));
        }
    }
}

waldo_exec_result *run(contract *c, const waldo_exec_options *options)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;
    waldo_status status = waldo_sandbox_exec_wait(c->sandbox, options, &result, &error);

    if (status != WALDO_OK) {
        print_error("exec: %s: %s\n", waldo_status_name(status), waldo_error_message(error));
        waldo_error_free(error);
        fail();
    }
    return result;
}

waldo_status run_status(contract *c, const waldo_exec_options *options, char *message, size_t size)
{
    waldo_exec_result *result = NULL;
    waldo_error *error = NULL;
    waldo_status status = waldo_sandbox_exec_wait(c->sandbox, options, &result, &error);

    snprintf(message, size, "%s", waldo_error_message(error));
    waldo_exec_result_free(result);
    waldo_error_free(error);
    return status;
}

void expect_text(const waldo_output *output, const char *text)
{
    if (!waldo__str_is(output->bytes, text)) {
        fail_msg("expected \"%s\", got \"%.*s\"", text, (int)output->bytes.len,
                 output->bytes.len > 0 ? output->bytes.ptr : "");
    }
    assert_int_equal(output->total, strlen(text));
    assert_int_equal(output->omitted, 0);
}

void write_file(contract *c, const char *path, waldo_str bytes, uint32_t mode, outcome *out)
{
    outcome_init(out);
    waldo_sandbox_write(c->sandbox, path, bytes, mode, took_done, out);
    drive(c, out);
}

void read_file(contract *c, const char *path, uint64_t offset, size_t max, outcome *out)
{
    outcome_init(out);
    waldo_sandbox_read(c->sandbox, path, offset, max, took_bytes, out);
    drive(c, out);
}

/* What machines of this target can do; one is asked, once. */
int offers(const contract *of, uint32_t bits)
{
    static int known;
    static uint32_t caps;
    contract *c = (contract *)of;

    if (!known) {
        waldo_sandbox *sandbox = other_sandbox(c, "", NULL, WALDO_WORKSPACE_COPY);
        outcome out;

        outcome_init(&out);
        waldo_sandbox_open(sandbox, took_done, &out);
        drive(c, &out);
        assert_int_equal(out.status, WALDO_OK);
        outcome_free(&out);
        caps = waldo__live_caps(sandbox);
        known = 1;
        close_sandbox(c, sandbox);
    }
    return (caps & bits) == bits;
}

waldo_sandbox *other_sandbox(contract *c, const char *more, const char *workspace,
                             waldo_workspace_mode mode)
{
    char text[1024];
    waldo_sandbox_spec *spec;
    waldo_sandbox *sandbox;

    snprintf(text, sizeof text, "%s:%s%s%s", c->backend->name, contract_target,
             more[0] != '\0' ? "," : "", more);
    spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text),
                                                   .workspace = workspace, .workspace_mode = mode));
    if (waldo_sandbox_spec_error(spec) != NULL) {
        print_error("%s\n", waldo_error_message(waldo_sandbox_spec_error(spec)));
    }
    sandbox = waldo_sandbox_new(c->rt, spec);
    waldo_sandbox_spec_unref(spec);
    return sandbox;
}

void close_sandbox(contract *c, waldo_sandbox *sandbox)
{
    outcome out;

    outcome_init(&out);
    waldo_sandbox_close(sandbox, took_done, &out);
    drive(c, &out);
    assert_int_equal(out.status, WALDO_OK);
    outcome_free(&out);
    waldo_sandbox_unref(sandbox);
}

void host_write(contract *c, const char *path, const void *bytes, size_t len, unsigned mode)
{
    char name[4096];
    FILE *file;

    snprintf(name, sizeof name, "%s/%s", c->folder, path);
    for (char *slash = name + strlen(c->folder) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        mkdir(name, 0755);
        *slash = '/';
    }
    file = fopen(name, "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(name, mode), 0);
}

int contract_setup(void **state)
{
    contract *c = calloc(1, sizeof *c);
    char folder[] = "/tmp/waldo-contract-XXXXXX";

    c->backend = waldo__backend_find(waldo__str(contract_backend));
    c->rt =
        waldo_runtime_new(&WALDO_RUNTIME(.log_level = WALDO_LOG_WARN, .keys = WALDO_KEYS_FROM_ENV));
    c->folder = strdup(mkdtemp(folder));
    chmod(c->folder, 0755);
    c->sandbox = other_sandbox(c, "", NULL, WALDO_WORKSPACE_COPY);
    *state = c;
    return c->backend == NULL;
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *ftw)
{
    (void)info;
    (void)flag;
    (void)ftw;
    return remove(path);
}

int contract_teardown(void **state)
{
    contract *c = *state;

    if (c->sandbox != NULL) {
        waldo_sandbox_unref(c->sandbox);
    }
    waldo_runtime_free(c->rt);
    nftw(c->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(c->folder);
    free(c);
    return 0;
}
