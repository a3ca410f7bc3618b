/* The provider: where it is, what its requests bear, what its answers mean. */
#include <stdio.h>

#include "backend/cloud.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "e2b.h"

static const char *wrong(const waldo_backend_spec *spec, waldo_str user)
{
    waldo_str attach = waldo__str(spec->attach);

    if (spec->target.len > 200 ||
        (spec->target.len > 0 && !waldo__str_made_of(spec->target, "-._/:"))) {
        return "the template's name holds a character that no template's name has";
    }
    if (spec->attach != NULL &&
        (spec->target.len > 0 || attach.len >= E2B_WORD_MAX || !waldo__str_made_of(attach, ""))) {
        return "attach needs the id of a sandbox, and no template: e2b:,attach=ID";
    }
    if (spec->memory_bytes > 0 || spec->cpus > 0 || spec->max_processes > 0) {
        return "memory and processors are the template's: leave memory, cpus and pids out, or name "
               "another template";
    }
    return user.len < E2B_WORD_MAX && waldo__str_made_of(user, "-_.")
               ? NULL
               : "user must be the name of a user of the template";
}

waldo_status waldo__e2b_place_find(e2b_place *place, const waldo_backend_env *env,
                                   const waldo_backend_spec *spec, waldo_error **ret_err)
{
    static const waldo__endpoint domain = { "e2b", "domain", "E2B_DOMAIN", "e2b.app",
                                            WALDO__ENDPOINT_DOMAIN };
    static const waldo__endpoint api = { "e2b", "api", "E2B_API_URL", "https://api.e2b.app",
                                         WALDO__ENDPOINT_URL };
    static const waldo__endpoint envd = { "e2b", "envd", "E2B_SANDBOX_URL",
                                          "https://sandbox.e2b.app", WALDO__ENDPOINT_URL };
    waldo_str user = waldo__backend_option(spec, "user");
    char usual[WALDO__ENDPOINT_MAX + 16];
    waldo_status status = WALDO_OK;

    *place = (e2b_place){ .env = env };
    user = user.len > 0 ? user : WALDO__S("user");
    if (wrong(spec, user) != NULL) {
        return waldo__error_invalid(ret_err, "e2b: %s", wrong(spec, user));
    }
    memcpy(place->user, user.ptr, user.len);
    status = waldo__endpoint_find(&domain, spec, domain.example, place->domain, ret_err);
    snprintf(usual, sizeof usual, "https://api.%s", place->domain);
    if (status == WALDO_OK) {
        status = waldo__endpoint_find(&api, spec, usual, place->api, ret_err);
    }
    return status == WALDO_OK ? waldo__endpoint_find(&envd, spec, "", place->envd, ret_err)
                              : status;
}

/*
 * Four domains have one host for every sandbox, routed by headers; elsewhere each has its own. What
 * the official client does (e2b 2.51, ConnectionConfig).
 */
static void put_daemon(const e2b_place *place, waldo__buf *out)
{
    static const char *const shared[] = { "e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev" };

    for (size_t i = 0; i < WALDO__COUNT(shared) && place->envd[0] == '\0'; i++) {
        if (strcmp(place->domain, shared[i]) == 0) {
            waldo__buf_printf(out, "https://sandbox.%s", place->domain);
            return;
        }
    }
    if (place->envd[0] != '\0') {
        waldo__buf_puts(out, place->envd);
    } else {
        waldo__buf_printf(out, "https://49983-%s.%s", place->id, place->domain);
    }
}

/* A stream says every three sevenths of the longest silence that it lives. */
static void fill(const void *userdata, const waldo__api_request *request, waldo__buf *url,
                 waldo__buf *headers, waldo__http_request *to)
{
    const e2b_place *place = userdata;
    char user[E2B_WORD_MAX + 1];

    to->auth_header = "X-API-Key";
    if (request->kind == E2B_DAEMON) {
        put_daemon(place, url);
        waldo__buf_puts(headers, "E2b-Sandbox-Port: 49983\nConnect-Protocol-Version: 1\n"
                                 "E2b-Sandbox-Id: ");
        waldo__buf_puts(headers, place->id);
        waldo__buf_putc(headers, '\n');
        to->auth_header = "X-Access-Token";
        to->auth_key = place->token[0] != '\0' ? place->token : NULL;
    } else {
        waldo__buf_puts(url, place->api);
    }
    waldo__buf_puts(url, request->path);
    if (request->user != NULL) {
        snprintf(user, sizeof user, "%s:", request->user);
        waldo__buf_puts(headers, "Authorization: Basic ");
        waldo__base64(waldo__str(user), headers);
        waldo__buf_putc(headers, '\n');
    }
    if (request->idle_ms > 0 && request->type != NULL) { /* a stream */
        int64_t alive_s = request->idle_ms / 7 * 3 / 1000;

        waldo__buf_printf(headers, "Keepalive-Ping-Interval: %lld\n",
                          (long long)(alive_s > 0 ? alive_s : 1));
    }
}

static const waldo__api_rule rules[] = {
    { 401, E2B_DAEMON, WALDO_EAUTH,
      "; the sandbox's access token was refused, or its template has no such user" },
    { 502, E2B_DAEMON, WALDO_ELOST, "; it was killed or paused, or its time was over" },
};

static const waldo__api api = {
    .name = "e2b",
    .key = E2B_KEY,
    .trace = "X-E2B-Trace-ID",
    .quota = "; end sandboxes that are not needed (waldo ps, waldo gc), or have the limit raised",
    .rules = rules,
    .rule_count = WALDO__COUNT(rules),
    .by_code = waldo__connect_status,
    .fill = fill,
};

void waldo__e2b_call_init(waldo__api_call *call, const e2b_place *place, void *userdata)
{
    waldo__api_call_init(call, &api, place->env, place, userdata);
}

void waldo__e2b_about(const e2b_place *place, waldo__api_call *call, const char *method,
                      const char *what, const char *words, int64_t deadline_ns, waldo__api_fn done)
{
    char path[2 * E2B_WORD_MAX];
    const waldo__api_request request = { .method = method,
                                         .path = path,
                                         .what = words,
                                         .replay = WALDO__REPLAY_SAFE,
                                         .ms = WALDO__CLOUD_SLOW_MS,
                                         .deadline_ns = deadline_ns };

    snprintf(path, sizeof path, "%s/sandboxes/%s%s",
             strcmp(what, "/connect") == 0 && !place->old ? "/v2" : "", place->id, what);
    if (done != NULL) {
        waldo__api_call_start(call, &request, done);
    } else {
        waldo__api_tell(&api, place->env, place, &request, words);
    }
}
