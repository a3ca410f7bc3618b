/*
 * Saved machines: what another process needs to go on with one. An envelope of JSON around the
 * bytes of the backend; nothing that comes back is believed.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "json/json.h"
#include "sandbox/live.h"

enum { SAVED_MAX = 128 * 1024, INNER_MAX = 64 * 1024, VERSION = 1 };
#define BACKGROUND_LAST INT64_C(1000000000000000)
#define KIND            "sandbox"
#define WORKSPACE_EMPTY "empty"

typedef struct save_op {
    waldo__op op;
    waldo__buf bytes;
    waldo_saved_fn done;
    void *userdata;
} save_op;

/* ---- saving ---- */

static const char *workspace_of(const waldo_sandbox *sandbox)
{
    int empty = sandbox->info.reached
                    ? sandbox->saved_empty
                    : sandbox->spec->workspace == NULL &&
                          sandbox->spec->options.workspace_mode == WALDO_WORKSPACE_COPY;

    return empty ? WORKSPACE_EMPTY : "copied";
}

static void on_saved(void *userdata, waldo_status status, waldo_str bytes, const waldo_error *error)
{
    save_op *save = userdata;
    const waldo_sandbox *sandbox = save->op.sandbox;
    waldo__json_writer jw;

    if (!waldo__op_backend_done(&save->op)) {
        return;
    }
    if (status == WALDO_OK && bytes.len <= INNER_MAX) {
        waldo__json_writer_init(&jw, &save->bytes);
        waldo__jw_object(&jw, NULL);
        waldo__jw_str(&jw, "waldo", WALDO__S(KIND));
        waldo__jw_int(&jw, "version", VERSION);
        waldo__jw_text(&jw, "backend", waldo__live_entry(sandbox)->ops->name);
        waldo__jw_int(&jw, "background", sandbox->next_background);
        waldo__jw_text(&jw, "workspace", workspace_of(sandbox));
        waldo__jw_str(&jw, "machine", bytes);
        waldo__jw_end(&jw, '}');
        status = save->bytes.status;
    } else if (status == WALDO_OK) {
        status = WALDO_ETOOBIG;
    }
    waldo__op_end(&save->op, status, waldo_error_copy(error));
}

static void save_start(waldo__op *op)
{
    waldo_sandbox *sandbox = op->sandbox;
    waldo_backend_call call;

    if (!waldo__live_durable(sandbox)) {
        waldo__op_fail(op, WALDO_ENOTSUP,
                       "the machine has no lease: it ends with this process and cannot be saved; "
                       "give the spec lease= or name=");
        return;
    }
    waldo__op_backend_call(op, &call, waldo__deadline_ns(10000));
    waldo__live_entry(sandbox)->ops->save(sandbox->machine, &call, on_saved);
}

static void save_finish(waldo__op *op, waldo_status status, const waldo_error *error)
{
    save_op *save = (save_op *)op;

    save->done(save->userdata, status,
               status == WALDO_OK ? waldo__buf_str(&save->bytes) : WALDO__S(""), error);
}

static void save_free(waldo__op *op)
{
    save_op *save = (save_op *)op;

    waldo__buf_free(&save->bytes);
    waldo__free(save);
}

static const waldo__op_kind save_kind = { .start = save_start,
                                          .finish = save_finish,
                                          .free = save_free };

void waldo_sandbox_save(waldo_sandbox *sandbox, waldo_saved_fn done, void *userdata)
{
    save_op *save = WALDO__NEW(save_op);

    if (save == NULL) {
        done(userdata, WALDO_ENOMEM, WALDO__S(""), NULL);
        return;
    }
    waldo__buf_init(&save->bytes, SAVED_MAX);
    save->done = done;
    save->userdata = userdata;
    waldo__op_begin(sandbox, &save->op, &save_kind);
}

/* ---- opening ---- */

static waldo_status bad(waldo_error **ret_err, waldo_status status, const char *what)
{
    return waldo_error_set(ret_err, status, WALDO_CLASS_USAGE, "saved sandbox: %s", what);
}

/* The entry of the spec that is the machine's backend. */
static waldo_status find_entry(waldo_sandbox *sandbox, waldo_str backend, waldo_error **ret_err)
{
    const waldo_sandbox_spec *spec = sandbox->spec;

    for (size_t i = 0; i < spec->entry_count; i++) {
        if (waldo__str_is(backend, spec->entries[i].ops->name) &&
            (spec->entries[i].ops->caps & WALDO_BACKEND_ATTACH) != 0) {
            sandbox->entry = i;
            return WALDO_OK;
        }
    }
    return waldo__error_invalid(
        ret_err,
        "saved sandbox: the machine is of backend \"%.*s\", which the spec does "
        "not name or which keeps none; use a spec such as \"%.*s:...\"",
        (int)(backend.len < 40 ? backend.len : 40), backend.ptr,
        (int)(backend.len < 40 ? backend.len : 40), backend.ptr);
}

static waldo_status take_saved(waldo_sandbox *sandbox, const waldo__json_value *root,
                               waldo_error **ret_err)
{
    waldo_str machine = waldo__json_get_str(root, "machine");
    int64_t version = waldo__json_get_int(root, "version", 0);
    int64_t background = waldo__json_get_int(root, "background", -1);
    waldo_status status;

    if (!waldo__str_is(waldo__json_get_str(root, "waldo"), KIND) || version < 1) {
        return bad(ret_err, WALDO_EINVAL, "the bytes are no saved sandbox");
    }
    if (version > VERSION) {
        return bad(ret_err, WALDO_ENOTSUP, "it was saved by a newer version of the library");
    }
    if (machine.len == 0 || machine.len > INNER_MAX || background < 0 ||
        background > BACKGROUND_LAST) {
        return bad(ret_err, WALDO_EINVAL, "the bytes name no machine");
    }
    status = find_entry(sandbox, waldo__json_get_str(root, "backend"), ret_err);
    if (status != WALDO_OK) {
        return status;
    }
    sandbox->saved = waldo__strndup(machine.ptr, machine.len);
    sandbox->saved_empty = waldo__str_is(waldo__json_get_str(root, "workspace"), WORKSPACE_EMPTY);
    sandbox->next_background = background;
    return sandbox->saved != NULL ? WALDO_OK : waldo__error_nomem(ret_err);
}

waldo_sandbox *waldo_sandbox_open_saved(waldo_runtime *rt, waldo_sandbox_spec *spec,
                                        waldo_str saved, waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = SAVED_MAX, .max_depth = 4, .max_values = 64 };
    waldo_sandbox *sandbox;
    waldo__json *doc = NULL;
    waldo_status status;

    if (rt == NULL || spec == NULL) {
        bad(ret_err, WALDO_EINVAL, "runtime or spec is NULL");
        return NULL;
    }
    if (waldo_sandbox_spec_error(spec) != NULL) {
        waldo__error_copy_to(ret_err, waldo_sandbox_spec_error(spec));
        return NULL;
    }
    if (waldo__json_parse(saved, &limits, &doc, NULL) != WALDO_OK) {
        bad(ret_err, WALDO_EINVAL,
            "the bytes are no saved sandbox, or not all of one; keep what waldo_sandbox_save() "
            "gave as it is");
        return NULL;
    }
    sandbox = waldo_sandbox_new(rt, spec);
    status = sandbox != NULL ? take_saved(sandbox, waldo__json_root(doc), ret_err)
                             : waldo__error_nomem(ret_err);
    waldo__json_free(doc);
    if (status != WALDO_OK) {
        waldo_sandbox_unref(sandbox);
        return NULL;
    }
    return sandbox;
}
