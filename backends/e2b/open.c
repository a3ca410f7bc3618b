/*
 * How a sandbox is made or reached: by a new one, a name, a saved state or an id. Then the hand is
 * put into it and started; if one is there already, that one stays.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/ident.h"
#include "hand/embedded.h"
#include "machine.h"

enum { SAVED_MAX = 4096, CREATE_MAX = 64 * 1024, TOKEN_MAX = 1024, STAYS_MS = 10000 };

static void opened(waldo_machine *machine, waldo_status status, const waldo_error *error)
{
    machine->status = status;
    machine->error = waldo_error_copy(error);
    waldo__task_queue(machine->place.env->loop, &machine->task);
}

static void fail(waldo_machine *machine, waldo_status status, const char *text)
{
    waldo_error *made = NULL;

    waldo_error_set(&made, status, WALDO_CLASS_BACKEND, "e2b: %s", text);
    opened(machine, status, made);
    waldo_error_free(made);
}

static void ask(waldo_machine *machine, const char *method, const char *path, const char *what,
                waldo__replay replay, e2b_call_fn done)
{
    const e2b_request request = { .method = method,
                                  .path = path,
                                  .what = what,
                                  .replay = replay,
                                  .ms = E2B_SLOW_MS,
                                  .deadline_ns = machine->deadline_ns };

    waldo__e2b_call_start(&machine->calls[0], &request, done);
}

/* ---- what is asked for ---- */

int64_t waldo__e2b_seconds(const waldo_machine *machine)
{
    return ((machine->lease_ms > 0 ? machine->lease_ms : E2B_LIFE_MS) + 999) / 1000;
}

void waldo__e2b_put_seconds(const waldo_machine *machine, const char *key, waldo__buf *out)
{
    waldo__buf_clear(out);
    waldo__buf_printf(out, "{\"%s\":%lld}", key, (long long)waldo__e2b_seconds(machine));
}

/* A name in the allow-list wants everything else denied (api, network validation). */
void waldo__e2b_put_net(waldo__json_writer *jw, waldo_net net, const char *const *hosts, int update)
{
    if (net == WALDO_NET_ALL) {
        return;
    }
    if (net != WALDO_NET_HOSTS) {
        waldo__jw_bool(jw, "allow_internet_access", 0);
        return;
    }
    if (!update) {
        waldo__jw_object(jw, "network");
    }
    waldo__jw_array(jw, "allowOut");
    for (; hosts != NULL && *hosts != NULL; hosts++) {
        waldo__jw_str(jw, NULL, waldo__str(*hosts));
    }
    waldo__jw_end(jw, ']');
    waldo__jw_array(jw, "denyOut");
    waldo__jw_str(jw, NULL, WALDO__S("0.0.0.0/0"));
    waldo__jw_end(jw, ']');
    if (!update) {
        waldo__jw_end(jw, '}');
    }
}

/* One that is given up while it is made ends soon: its lease begins when it is there. */
static void put_create(waldo_machine *machine, const waldo_backend_spec *spec)
{
    int64_t seconds = waldo__e2b_seconds(machine);
    waldo__ident self;
    waldo__json_writer jw;
    char lease[24] = "ephemeral";

    waldo__ident_self(&self);
    if (machine->lease_ms > 0) {
        snprintf(lease, sizeof lease, "%lld", (long long)machine->lease_ms);
    }
    waldo__json_writer_init(&jw, &machine->create);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "templateID", spec->target.len > 0 ? spec->target : WALDO__S("base"));
    waldo__jw_int(&jw, "timeout", seconds < E2B_MADE_MS / 1000 ? seconds : E2B_MADE_MS / 1000);
    waldo__e2b_put_net(&jw, spec->net, spec->hosts, 0);
    waldo__jw_object(&jw, "metadata");
    waldo__jw_str(&jw, E2B_LABEL, WALDO__S("1"));
    waldo__jw_str(&jw, E2B_LABEL_RUN, waldo__str(machine->run));
    waldo__jw_str(&jw, E2B_LABEL_OWNER, waldo__str(spec->owner));
    waldo__jw_str(&jw, E2B_LABEL_LEASE, waldo__str(lease));
    if (machine->name != NULL) {
        waldo__jw_str(&jw, E2B_LABEL_NAME, waldo__str(machine->name));
    }
    waldo__jw_str(&jw, E2B_LABEL_PID, waldo__str(self.pid));
    waldo__jw_str(&jw, E2B_LABEL_START, waldo__str(self.start));
    waldo__jw_str(&jw, E2B_LABEL_HOST, waldo__str(self.host));
    waldo__jw_str(&jw, E2B_LABEL_USER, waldo__str(self.user));
    waldo__jw_end(&jw, '}');
    waldo__jw_end(&jw, '}');
}

static void take_word(char *to, waldo_str word)
{
    memcpy(to, word.ptr, word.len);
    to[word.len] = '\0';
}

/* Nothing of it is believed: the sandbox it names has to say the same of itself. */
static waldo_status take_saved(waldo_machine *machine, waldo_str saved, waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = SAVED_MAX, .max_depth = 4, .max_values = 32 };
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(saved, &limits, &doc, ret_err);
    waldo_str id = waldo__json_get_str(waldo__json_root(doc), "sandbox");
    waldo_str run = waldo__json_get_str(waldo__json_root(doc), "run");
    waldo_str user = waldo__json_get_str(waldo__json_root(doc), "user");

    if (status == WALDO_OK && (!waldo__e2b_is_word(id) || !waldo__e2b_is_word(run))) {
        status = waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                                 "e2b: the saved state names no sandbox");
    }
    if (status == WALDO_OK) {
        machine->saved = 1;
        if (waldo__json_get_bool(waldo__json_root(doc), "foreign", 0) && machine->attach == NULL) {
            machine->attach = waldo__strndup(id.ptr, id.len);
            status = machine->attach != NULL ? status : waldo__error_nomem(ret_err);
        }
        take_word(machine->place.id, id);
        take_word(machine->run, run);
        if (waldo__e2b_is_word(user)) {
            take_word(machine->place.user, user);
        }
    }
    waldo__json_free(doc);
    return status;
}

waldo_status waldo__e2b_take_spec(waldo_machine *machine, const waldo_backend_spec *spec,
                                  waldo_str saved, waldo_error **ret_err)
{
    waldo_str attach = waldo__str(spec->attach);
    waldo_str id = waldo__str(spec->id);

    if (!waldo__e2b_is_word(id) || (attach.len > 0 && !waldo__e2b_is_word(attach))) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               "e2b: attach must be the id of a sandbox");
    }
    take_word(machine->run, id);
    take_word(machine->mine, id);
    machine->lease_ms = spec->lease_ms;
    machine->lease_asked = (spec->flags & WALDO_BACKEND_LEASE) != 0;
    machine->find = (spec->flags & WALDO_BACKEND_FIND) != 0;
    machine->create = WALDO__BUF_INIT(CREATE_MAX);
    machine->name = waldo__strdup(spec->name);
    machine->attach = attach.len > 0 ? waldo__strndup(attach.ptr, attach.len) : NULL;
    put_create(machine, spec);
    if ((machine->name == NULL && spec->name != NULL) ||
        (machine->attach == NULL && attach.len > 0) || machine->create.status != WALDO_OK) {
        return waldo__error_nomem(ret_err);
    }
    return saved.len > 0 ? take_saved(machine, saved, ret_err) : WALDO_OK;
}

/* ---- a sandbox, as create and connect tell it ---- */

/* octet-stream uploads came with 0.5.7 (envd). */
static int is_old(waldo_str version)
{
    int64_t part[3] = { 0, 0, 0 };
    waldo_str word;

    version = version.len > 0 && version.ptr[0] == 'v'
                  ? waldo__strn(version.ptr + 1, version.len - 1)
                  : version;
    for (int i = 0; i < 3 && waldo__str_split(&version, '.', &word); i++) {
        waldo__str_int(word, &part[i]);
    }
    return (part[0] * 1000 + part[1]) * 1000 + part[2] < 5007;
}

/* The access token rests where keys do from the first moment on. */
static waldo_status take_sandbox(waldo_machine *machine, waldo_error **ret_err)
{
    e2b_place *place = &machine->place;
    waldo__json *doc = NULL;
    waldo_status status = waldo__e2b_parse(&machine->calls[0], &doc, ret_err);
    const waldo__json_value *root = waldo__json_root(doc);
    waldo_str id = waldo__json_get_str(root, "sandboxID");
    waldo_str token = waldo__json_get_str(root, "envdAccessToken");
    waldo_str domain = waldo__json_get_str(root, "domain");
    waldo_str version = waldo__json_get_str(root, "envdVersion");

    id.len = waldo__str_find(id, '-'); /* what follows is of an older form */
    if (status == WALDO_OK && (!waldo__e2b_is_word(id) || token.len > TOKEN_MAX)) {
        status = waldo_error_set(ret_err, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                                 "e2b: the provider's answer names no sandbox");
    }
    if (status == WALDO_OK) {
        take_word(place->id, id);
        if (waldo__e2b_is_host(domain)) {
            take_word(place->domain, domain);
        }
    }
    if (status == WALDO_OK && token.len > 0) {
        snprintf(place->token, sizeof place->token, "e2b-%.60s", machine->mine);
        status = waldo__secrets_put(place->env->secrets, place->token, token, 0);
    }
    if (status == WALDO_OK && version.len > 0 && is_old(version)) {
        status = waldo_error_set(ret_err, WALDO_ENOTSUP, WALDO_CLASS_BACKEND,
                                 "e2b: the template's envd is %.*s, and 0.5.7 is the oldest that "
                                 "works; build the template anew",
                                 (int)(version.len & 31), version.ptr);
    }
    waldo__json_free(doc);
    waldo__buf_wipe(&machine->calls[0].ask.answer);
    return status;
}

/* ---- the hand in it ---- */

static waldo_status on_hand_event(void *userdata, e2b_event event, int64_t number, waldo_str text)
{
    waldo_machine *machine = userdata;

    (void)number;
    (void)text;
    if (event == E2B_STARTED && !machine->task.queued) {
        opened(machine, WALDO_OK, NULL); /* its completion lets go of the stream */
    }
    return WALDO_OK;
}

static waldo_status on_hand_bytes(void *userdata, waldo_str bytes)
{
    waldo_machine *machine = userdata;

    return waldo__e2b_stream_feed(&machine->hand, bytes, on_hand_event, machine);
}

static void on_hand_over(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;

    status = waldo__e2b_stream_status(&machine->hand, status, error, &made);
    if (!machine->task.queued) {
        opened(machine, status != WALDO_OK ? status : WALDO_EPROTO, made);
    }
    waldo_error_free(made);
}

/*
 * As the user, from a copy of its own: the file that root runs is nobody else's. Of two hands with
 * one address the second ends at once.
 */
static void start_hand(waldo_machine *machine)
{
    static const char script[] = "grep -qs \"@$1\\$\" /proc/net/unix && exit; cp \"$0\" \"$0-u\" "
                                 "&& chmod 700 \"$0-u\" || exit\n"
                                 "[ -n \"$3\" ] || exec \"$0-u\" durable \"$1\" \"$2\"\n"
                                 "\"$0-u\" durable \"$1\" \"$2\"; rm -f \"$0-u\"";
    const e2b_request limits = { .what = "starting the hand",
                                 .user = machine->place.user,
                                 .ms = E2B_SLOW_MS,
                                 .deadline_ns = machine->deadline_ns };
    int64_t usual_ms = machine->attach != NULL ? STAYS_MS : E2B_LIFE_MS;
    char lease[24];
    const char *const args[] = { machine->path, machine->address, lease,
                                 machine->attach != NULL ? "leave nothing" : NULL, NULL };

    snprintf(lease, sizeof lease, "%lld",
             (long long)(machine->lease_ms > 0 ? machine->lease_ms : usual_ms));
    waldo__e2b_stream_start(&machine->hand, &limits, script, args, 0, on_hand_bytes, on_hand_over);
}

/* The first failure counts, when all parts have ended. */
static void on_part(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    if (status != WALDO_OK && machine->status == WALDO_OK) {
        machine->status = status;
        machine->error = waldo_error_copy(error);
    }
    if (--machine->pending > 0) {
        return;
    }
    if (machine->status != WALDO_OK) {
        waldo__task_queue(machine->place.env->loop, &machine->task);
        return;
    }
    start_hand(machine);
}

/* The folder may be there: of the template, or by who was here before. */
static void on_folder(void *userdata, waldo_status status, const waldo_error *error)
{
    on_part(userdata, status == WALDO_EEXISTS ? WALDO_OK : status,
            status == WALDO_EEXISTS ? NULL : error);
}

static void prepare(waldo_machine *machine)
{
    const waldo__hand_program *hand = waldo__hand_native();
    e2b_request request = { .method = "POST",
                            .in_sandbox = 1,
                            .replay = WALDO__REPLAY_SAFE,
                            .ms = E2B_SLOW_MS,
                            .deadline_ns = machine->deadline_ns };
    char path[3 * E2B_WORD_MAX];

    snprintf(machine->path, sizeof machine->path, "/tmp/.waldo-hand-%s", machine->mine);
    snprintf(machine->address, sizeof machine->address, "waldo-%s", machine->run);
    machine->status = WALDO_OK;
    machine->pending = 2;
    snprintf(path, sizeof path, "/files?path=%s&username=root", machine->path);
    request.path = path;
    request.what = "putting the hand into the sandbox";
    request.type = "application/octet-stream";
    waldo__buf_clear(&machine->calls[0].body);
    waldo__buf_add(&machine->calls[0].body, hand->image, hand->len);
    waldo__e2b_call_start(&machine->calls[0], &request, on_part);
    request.path = "/filesystem.Filesystem/MakeDir";
    request.what = "making /workspace";
    request.type = NULL;
    request.user = machine->place.user;
    waldo__buf_puts(&machine->calls[1].body, "{\"path\":\"/workspace\"}");
    waldo__e2b_call_start(&machine->calls[1], &request, on_folder);
    if (machine->made && waldo__e2b_seconds(machine) > E2B_MADE_MS / 1000) {
        machine->pending++;
        snprintf(path, sizeof path, "/sandboxes/%s/timeout", machine->place.id);
        request.path = path;
        request.what = "setting the sandbox's time";
        request.in_sandbox = 0;
        request.user = NULL;
        waldo__e2b_put_seconds(machine, "timeout", &machine->calls[2].body);
        waldo__e2b_call_start(&machine->calls[2], &request, on_part);
    }
}

/* ---- one that is there ---- */

static void create(waldo_machine *machine);

void waldo__e2b_connect(waldo_machine *machine, e2b_call_fn done)
{
    char path[2 * E2B_WORD_MAX];

    snprintf(path, sizeof path, "%s/sandboxes/%s/connect", machine->place.old ? "" : "/v2",
             machine->place.id);
    waldo__e2b_put_seconds(machine, "timeout", &machine->calls[0].body);
    ask(machine, "POST", path, "reaching the sandbox", WALDO__REPLAY_SAFE, done);
}

static void on_connected(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    int code = machine->calls[0].ask.http_status;
    waldo_error *made = NULL;

    if (status != WALDO_OK && (code == 404 || code == 405) && !machine->place.old) {
        machine->place.old = 1;
        waldo__e2b_connect(machine, on_connected);
        return;
    }
    if (status != WALDO_OK && code == 404) {
        fail(
            machine, WALDO_ENOTFOUND,
            "there is no such sandbox any more: its time was over, it was killed, or it is another "
            "key's; open a new one");
        return;
    }
    if (status == WALDO_OK) {
        status = take_sandbox(machine, &made);
        error = made;
    }
    if (status == WALDO_OK) {
        prepare(machine);
    } else {
        opened(machine, status, error);
    }
    waldo_error_free(made);
}

/* Its labels say what it is, whatever was expected; 0: it is none of ours. */
static int take_labels(waldo_machine *machine, const waldo__json_value *sandbox)
{
    const waldo__json_value *labels = waldo__json_get(sandbox, "metadata");
    waldo_str run = waldo__json_get_str(labels, E2B_LABEL_RUN);
    waldo_str id = waldo__json_get_str(sandbox, "sandboxID");

    id.len = waldo__str_find(id, '-');
    if (!waldo__e2b_is_word(run) || !waldo__e2b_is_word(id)) {
        return 0;
    }
    take_word(machine->run, run);
    take_word(machine->place.id, id);
    if (!machine->lease_asked) {
        machine->lease_ms = 0;
        waldo__str_int(waldo__json_get_str(labels, E2B_LABEL_LEASE), &machine->lease_ms);
        machine->lease_ms =
            machine->lease_ms > 0 && machine->lease_ms < UINT32_MAX ? machine->lease_ms : 0;
    }
    return 1;
}

static void on_saved_one(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__json *doc = NULL;
    waldo_error *made = NULL;
    char run[E2B_WORD_MAX];

    memcpy(run, machine->run, sizeof run);
    if (status == WALDO_ENOTFOUND) {
        fail(machine, WALDO_ENOTFOUND,
             "the saved sandbox is there no more: its time was over, or it was killed; open a new "
             "one");
        return;
    }
    if (status == WALDO_OK) {
        status = waldo__e2b_parse(&machine->calls[0], &doc, &made);
        error = made;
    }
    if (status != WALDO_OK) {
        opened(machine, status, error);
    } else if (!take_labels(machine, waldo__json_root(doc)) || strcmp(run, machine->run) != 0) {
        fail(machine, WALDO_EACCESS, "the sandbox is not the one that was saved; it is left alone");
    } else {
        machine->reached = 1;
        waldo__e2b_connect(machine, on_connected);
    }
    waldo__json_free(doc);
    waldo_error_free(made);
}

/* ---- one that has a label ---- */

/* The oldest of a listing: whoever looks sees the same. */
static const waldo__json_value *oldest(const waldo__json *doc)
{
    const waldo__json_value *best = NULL;
    const waldo__json_value *item = waldo__json_first(waldo__json_root(doc));

    for (; item != NULL; item = waldo__json_next(item)) {
        waldo_str at[2] = { waldo__json_get_str(item, "startedAt"),
                            waldo__json_get_str(best, "startedAt") };
        waldo_str id[2] = { waldo__json_get_str(item, "sandboxID"),
                            waldo__json_get_str(best, "sandboxID") };
        int order = best != NULL ? strcmp(at[0].ptr, at[1].ptr) : -1;

        if (order < 0 || (order == 0 && strcmp(id[0].ptr, id[1].ptr) < 0)) {
            best = item;
        }
    }
    return best;
}

/* After a creation whose outcome is unknown: its run; else a name, before and after creation. */
static void on_found(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__json *doc = NULL;
    waldo_error *made = NULL;
    const waldo__json_value *found;
    e2b_place own = machine->place;

    if (status == WALDO_OK) {
        status = waldo__e2b_parse(&machine->calls[0], &doc, &made);
        error = made;
    }
    found = oldest(doc);
    if (status != WALDO_OK) {
        opened(machine, status, error);
    } else if (found == NULL && machine->find) {
        fail(machine, WALDO_ENOTFOUND,
             "there is no machine of this name; make one with e2b:TEMPLATE,name=NAME");
    } else if (found == NULL && machine->made) {
        prepare(machine);
    } else if (found == NULL) {
        create(machine);
    } else if (machine->made && waldo__str_is(waldo__json_get_str(found, "sandboxID"), own.id)) {
        prepare(machine);
    } else if (!take_labels(machine, found)) {
        fail(machine, WALDO_EACCESS, "the machine of this name is not one of waldo's");
    } else {
        machine->reached = strcmp(machine->run, machine->mine) != 0;
        if (machine->made) { /* another process was faster */
            waldo__e2b_tell(&own, "DELETE", "", "");
            machine->made = 0;
        }
        machine->made = !machine->reached;
        waldo__e2b_connect(machine, on_connected);
    }
    waldo__json_free(doc);
    waldo_error_free(made);
}

static void look_for(waldo_machine *machine, const char *key, const char *value)
{
    waldo__buf path = WALDO__BUF_INIT(4096);

    waldo__e2b_put_list(&path, key, value, waldo__str(""));
    waldo__buf_clear(&machine->calls[0].body);
    ask(machine, "GET", waldo__buf_str(&path).ptr, "looking for the sandbox", WALDO__REPLAY_SAFE,
        on_found);
    waldo__buf_free(&path);
}

/* ---- a new one ---- */

static void on_created(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    int code = machine->calls[0].ask.http_status;
    waldo_error *made = NULL;

    machine->creating = 0;
    if (status != WALDO_OK && (code == 404 || code == 405) && !machine->place.old) {
        machine->place.old = 1;
        create(machine);
        return;
    }
    if (status == WALDO_EUNKNOWN_OUTCOME && !machine->again) {
        machine->again = 1; /* it is made a second time only if there is none */
        look_for(machine, E2B_LABEL_RUN, machine->run);
        return;
    }
    if (status == WALDO_OK) {
        status = take_sandbox(machine, &made);
        error = made;
    }
    machine->made = machine->place.id[0] != '\0';
    if (status != WALDO_OK) {
        opened(machine, status, error);
    } else if (machine->name != NULL) {
        look_for(machine, E2B_LABEL_NAME, machine->name);
    } else {
        prepare(machine);
    }
    waldo_error_free(made);
}

static void create(waldo_machine *machine)
{
    waldo__buf *body = &machine->calls[0].body;
    waldo_str text = waldo__buf_str(&machine->create);

    waldo__buf_clear(body);
    waldo__buf_puts(body, machine->place.old ? "{\"secure\":true," : "{");
    waldo__buf_add(body, text.ptr + 1, text.len - 1);
    machine->creating = 1;
    ask(machine, "POST", machine->place.old ? "/sandboxes" : "/v2/sandboxes",
        "creating the sandbox", WALDO__REPLAY_NEVER, on_created);
}

void waldo__e2b_begin(waldo_machine *machine)
{
    char path[2 * E2B_WORD_MAX];

    if (machine->attach != NULL) {
        machine->reached = 1;
        take_word(machine->place.id, waldo__str(machine->attach));
        waldo__e2b_connect(machine, on_connected);
    } else if (machine->saved) {
        snprintf(path, sizeof path, "/sandboxes/%s", machine->place.id);
        ask(machine, "GET", path, "looking at the sandbox", WALDO__REPLAY_SAFE, on_saved_one);
    } else if (machine->name != NULL) {
        look_for(machine, E2B_LABEL_NAME, machine->name);
    } else {
        create(machine);
    }
}
