/*
 * How a sandbox is made or reached: by a new one, a name, a saved state or an id. Then the hand is
 * put into it and started; if one is there already, that one stays.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "hand/embedded.h"
#include "machine.h"

enum { CREATE_MAX = 64 * 1024, TOKEN_MAX = 1024 };

static void opened(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__cloud_opened(&machine->cloud, status, error);
}

static void ask(waldo_machine *machine, const char *method, const char *path, const char *what,
                waldo__replay replay, waldo__api_fn done)
{
    const waldo__api_request request = { .method = method,
                                         .path = path,
                                         .what = what,
                                         .replay = replay,
                                         .ms = WALDO__CLOUD_SLOW_MS,
                                         .deadline_ns = machine->cloud.deadline_ns };

    waldo__api_call_start(&machine->calls[0], &request, done);
}

/* ---- what is asked for ---- */

void waldo__e2b_put_seconds(const waldo_machine *machine, const char *key, waldo__buf *out)
{
    waldo__buf_clear(out);
    waldo__buf_printf(out, "{\"%s\":%lld}", key, (long long)waldo__cloud_seconds(&machine->cloud));
}

/* A name in the allow-list wants everything else denied (api, network validation). */
void waldo__e2b_put_net(waldo__json_writer *jw, waldo_net net, const char *const *hosts, int update)
{
    if (net == WALDO_NET_NONE) {
        waldo__jw_bool(jw, "allow_internet_access", 0);
    }
    if (net != WALDO_NET_HOSTS) {
        return;
    }
    if (!update) {
        waldo__jw_object(jw, "network");
    }
    waldo__jw_array(jw, "allowOut");
    for (; hosts != NULL && *hosts != NULL; hosts++) {
        waldo__jw_text(jw, NULL, *hosts);
    }
    waldo__jw_end(jw, ']');
    waldo__jw_array(jw, "denyOut");
    waldo__jw_text(jw, NULL, "0.0.0.0/0");
    waldo__jw_end(jw, ']');
    if (!update) {
        waldo__jw_end(jw, '}');
    }
}

/* One that is given up while it is made ends soon: its lease begins when it is there. */
static void put_create(waldo_machine *machine, const waldo_backend_spec *spec)
{
    int64_t seconds = waldo__cloud_seconds(&machine->cloud);
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, &machine->create);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, "templateID", spec->target.len > 0 ? spec->target : WALDO__S("base"));
    waldo__jw_int(&jw, "timeout",
                  seconds < WALDO__CLOUD_MADE_MS / 1000 ? seconds : WALDO__CLOUD_MADE_MS / 1000);
    waldo__e2b_put_net(&jw, spec->net, spec->hosts, 0);
    waldo__jw_object(&jw, "metadata");
    waldo__jw_text(&jw, E2B_LABEL, "1");
    waldo__labels_put(&jw, spec->owner, spec->id, spec->name, spec->lease_ms);
    waldo__jw_end(&jw, '}');
    waldo__jw_end(&jw, '}');
}

/* ---- the hand in it ---- */

static waldo_status on_hand_event(void *userdata, waldo__process_event event, int64_t number,
                                  waldo_str text)
{
    waldo_machine *machine = userdata;

    (void)number;
    (void)text;
    waldo__launch_event(&machine->launch, event);
    return WALDO_OK;
}

static waldo_status on_hand_bytes(void *userdata, waldo_str bytes)
{
    waldo_machine *machine = userdata;
    waldo_status status = waldo__e2b_stream_feed(&machine->hand, bytes, on_hand_event, machine);

    return status == WALDO_OK && waldo__connect_ended(&machine->hand.frames) ? WALDO_EPROTO
                                                                             : status;
}

static void on_hand_over(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo_error *made = NULL;

    status = waldo__e2b_stream_status(&machine->hand, status, error, &made);
    waldo__launch_over(&machine->launch, status, made);
    waldo_error_free(made);
}

static void start_hand(void *userdata, const char *script, const char *const *args)
{
    waldo_machine *machine = userdata;
    const waldo__api_request limits = { .what = "starting the hand",
                                        .user = machine->place.user,
                                        .ms = WALDO__CLOUD_SLOW_MS,
                                        .deadline_ns = machine->cloud.deadline_ns };

    waldo__e2b_stream_start(&machine->hand, &limits, script, args, 0, on_hand_bytes, on_hand_over);
}

static void on_part(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__launch_part(&machine->launch, status, error);
}

/* The folder may be there: of the template, or by who was here before. */
static void on_folder(void *userdata, waldo_status status, const waldo_error *error)
{
    on_part(userdata, status == WALDO_EEXISTS ? WALDO_OK : status, error);
}

static void bring(void *userdata, const char *to, int for_root)
{
    waldo_machine *machine = userdata;
    const waldo__hand_program *hand = waldo__hand_native();
    waldo__api_call *call = &machine->calls[for_root ? 3 : 0];
    char path[4 * E2B_WORD_MAX];
    const waldo__api_request request = { .method = "POST",
                                         .path = path,
                                         .what = "putting the hand into the sandbox",
                                         .type = "application/octet-stream",
                                         .kind = E2B_DAEMON,
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = WALDO__CLOUD_SLOW_MS,
                                         .deadline_ns = machine->cloud.deadline_ns };

    snprintf(path, sizeof path, "/files?path=%s&username=%s", to,
             for_root ? "root" : machine->place.user);
    waldo__buf_clear(&call->body);
    waldo__buf_add(&call->body, waldo__hand_image(hand), hand->len);
    waldo__api_call_start(call, &request, on_part);
}

static void on_launched(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;

    waldo__e2b_stream_free(&machine->hand);
    opened(machine, status, error);
}

const waldo__launch_fns waldo__e2b_launch = { bring, start_hand, on_launched, waldo__e2b_brought };

static void prepare(void *userdata)
{
    waldo_machine *machine = userdata;
    const waldo__cloud *cloud = &machine->cloud;
    waldo__api_call *calls = machine->calls;
    int timed = cloud->finder.made && waldo__cloud_seconds(cloud) > WALDO__CLOUD_MADE_MS / 1000;
    const waldo__api_request request = { .method = "POST",
                                         .path = "/filesystem.Filesystem/MakeDir",
                                         .what = "making /workspace",
                                         .user = machine->place.user,
                                         .kind = E2B_DAEMON,
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = WALDO__CLOUD_SLOW_MS,
                                         .deadline_ns = cloud->deadline_ns };

    waldo__launch_begin(&machine->launch, cloud->finder.mine, cloud->finder.run,
                        waldo__cloud_hand_ms(cloud), timed ? 2 : 1);
    waldo__buf_puts(&calls[1].body, "{\"path\":\"/workspace\"}");
    waldo__api_call_start(&calls[1], &request, on_folder);
    if (timed) {
        waldo__e2b_put_seconds(machine, "timeout", &calls[2].body);
        waldo__e2b_about(&machine->place, &calls[2], "POST", "/timeout",
                         "setting the sandbox's time", cloud->deadline_ns, on_part);
    }
}

/* ---- a sandbox, as create and connect tell it ---- */

/* The access token rests where keys do from the first moment on. */
static waldo_status take_sandbox(waldo_machine *machine, const waldo__json_value *root,
                                 waldo_error **ret_err)
{
    e2b_place *place = &machine->place;
    waldo_status status = WALDO_OK;
    waldo_str id = waldo__json_get_str(root, "sandboxID");
    waldo_str token = waldo__json_get_str(root, "envdAccessToken");
    waldo_str domain = waldo__json_get_str(root, "domain");

    id.len = waldo__str_find(id, '-'); /* what follows is of an older form */
    if (!waldo__take_word(place->id, id) || token.len > TOKEN_MAX) {
        return waldo_error_set(ret_err, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
                               "e2b: the provider's answer names no sandbox");
    }
    waldo__take_word(machine->cloud.finder.id, id);
    if (domain.len < WALDO__ENDPOINT_MAX && waldo__str_made_of(domain, "-.:")) {
        snprintf(place->domain, sizeof place->domain, "%.*s", (int)domain.len, domain.ptr);
    }
    if (token.len > 0) {
        snprintf(place->token, sizeof place->token, "e2b-%.60s", machine->cloud.finder.mine);
        status = waldo__secrets_put(place->env->secrets, place->token, token, 0);
    }
    return status;
}

/* In done of what makes or reaches one. The answer, which may hold the token, is wiped. */
static void read_sandbox(waldo_machine *machine, waldo_status status, const waldo_error *error,
                         waldo__api_answer *ret_answer)
{
    waldo__api_read(&machine->calls[0], status, error, ret_answer);
    if (ret_answer->status == WALDO_OK) {
        ret_answer->status = take_sandbox(machine, ret_answer->root, &ret_answer->made);
        ret_answer->error = ret_answer->made;
    }
    waldo__buf_free(&machine->calls[0].ask.answer);
}

/* ---- what the finder asks ---- */

/* A path that is not known, of a control plane that knows the first version only? */
static int is_older(waldo_machine *machine, waldo_status status)
{
    int code = machine->calls[0].ask.http_status;
    int older = status != WALDO_OK && (code == 404 || code == 405) && !machine->place.old;

    machine->place.old |= older;
    return older;
}

/* An answer that broke off, or a gateway's, may be of one that was made: looked for, once. */
static int may_be_made(const waldo_machine *machine)
{
    int code = machine->calls[0].ask.http_status;

    return !machine->cloud.finder.again &&
           (code / 100 == 2 || code == 500 || code == 502 || code == 504);
}

static void on_created(void *userdata, waldo_status status, const waldo_error *error);

static void create(void *userdata)
{
    waldo_machine *machine = userdata;
    waldo__buf *body = &machine->calls[0].body;
    waldo_str text = waldo__buf_str(&machine->create);

    waldo__buf_clear(body);
    waldo__buf_puts(body, machine->place.old ? "{\"secure\":true," : "{");
    waldo__buf_add(body, text.ptr + 1, text.len - 1);
    ask(machine, "POST", machine->place.old ? "/sandboxes" : "/v2/sandboxes",
        "creating the sandbox", WALDO__REPLAY_NEVER, on_created);
}

static void on_created(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__api_answer answer;

    if (is_older(machine, status)) {
        create(machine);
        return;
    }
    if (status != WALDO_OK && may_be_made(machine)) {
        status = WALDO_EUNKNOWN_OUTCOME;
    }
    read_sandbox(machine, status, error, &answer);
    waldo__finder_created(&machine->cloud.finder, answer.status, answer.error);
    waldo__api_answer_free(&answer);
}

static void on_connected(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__api_answer answer;

    if (is_older(machine, status)) {
        waldo__e2b_connect(machine, on_connected);
        return;
    }
    read_sandbox(machine, status, error, &answer);
    waldo__finder_reached(&machine->cloud.finder, answer.status, answer.error);
    waldo__api_answer_free(&answer);
}

void waldo__e2b_connect(waldo_machine *machine, waldo__api_fn done)
{
    waldo__take_word(machine->place.id, waldo__str(machine->cloud.finder.id));
    waldo__e2b_put_seconds(machine, "timeout", &machine->calls[0].body);
    waldo__e2b_about(&machine->place, &machine->calls[0], "POST", "/connect",
                     "reaching the sandbox", machine->cloud.deadline_ns, done);
}

static void reach(void *userdata)
{
    waldo__e2b_connect(userdata, on_connected);
}

/* A listing, or one sandbox. */
static void on_seen(void *userdata, waldo_status status, const waldo_error *error)
{
    waldo_machine *machine = userdata;
    waldo__finder *finder = &machine->cloud.finder;
    const waldo__json_value *item;
    waldo__api_answer answer;

    waldo__api_read(&machine->calls[0], status, error, &answer);
    if (finder->saved) {
        waldo__finder_inspected(finder, answer.status, answer.error,
                                waldo__json_get(answer.root, "metadata"));
    } else {
        for (item = waldo__json_first(answer.root); item != NULL; item = waldo__json_next(item)) {
            waldo__finder_see(finder, waldo__json_get_str(item, "sandboxID"),
                              waldo__json_get_str(item, "startedAt"),
                              waldo__json_get(item, "metadata"));
        }
        waldo__finder_looked(finder, answer.status, answer.error);
    }
    waldo__api_answer_free(&answer);
}

static void inspect(void *userdata)
{
    waldo_machine *machine = userdata;

    waldo__take_word(machine->place.id, waldo__str(machine->cloud.finder.id));
    waldo__e2b_about(&machine->place, &machine->calls[0], "GET", "", "looking at the sandbox",
                     machine->cloud.deadline_ns, on_seen);
}

static void look(void *userdata, const char *label, const char *value)
{
    waldo_machine *machine = userdata;

    waldo__e2b_put_list(&machine->calls[0].path, label, value, WALDO__S(""));
    waldo__buf_clear(&machine->calls[0].body);
    ask(machine, "GET", NULL, "looking for the sandbox", WALDO__REPLAY_SAFE, on_seen);
}

static void discard(void *userdata, const char *id)
{
    waldo_machine *machine = userdata;
    e2b_place place = machine->place;

    waldo__take_word(place.id, waldo__str(id));
    waldo__e2b_about(&place, NULL, "DELETE", "", "", 0, NULL);
}

waldo_status waldo__e2b_begin(waldo_machine *machine, const waldo_backend_spec *spec,
                              waldo_str saved, waldo_error **ret_err)
{
    static const waldo__finder_fns fns = { create, look, inspect, reach, discard, prepare, opened };
    waldo__finder *finder = &machine->cloud.finder;
    waldo_status status = waldo__finder_init(finder, machine->place.env->loop, "e2b", &fns, machine,
                                             spec, saved, ret_err);

    if (finder->user[0] != '\0') {
        waldo__take_word(machine->place.user, waldo__str(finder->user));
    }
    waldo__take_word(finder->user, waldo__str(machine->place.user));
    machine->create = WALDO__BUF_INIT(CREATE_MAX);
    put_create(machine, spec);
    status = status == WALDO_OK ? machine->create.status : status;
    if (status == WALDO_OK) {
        waldo__finder_begin(finder);
    }
    return status;
}
