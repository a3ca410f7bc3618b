/* Where the provider is, and whose the commands: the string's options, then the environment. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/error.h"
#include "e2b.h"

waldo_str waldo__e2b_option(const waldo_backend_spec *spec, const char *key)
{
    waldo_str value = { "", 0 };

    for (size_t i = 0; i < spec->option_count; i++) {
        if (waldo__str_is(spec->options[i].key, key)) {
            value = spec->options[i].value;
        }
    }
    return value;
}

static int in_class(waldo_str text, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        int alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && (c == '\0' || strchr(more, c) == NULL)) {
            return 0;
        }
    }
    return text.len > 0;
}

int waldo__e2b_is_word(waldo_str text)
{
    return text.len < E2B_WORD_MAX && in_class(text, "");
}

int waldo__e2b_is_host(waldo_str text)
{
    return text.len < E2B_URL_MAX && in_class(text, "-.:");
}

/* ret is of E2B_URL_MAX bytes. The first that is said counts. */
static waldo_status take(char *ret, waldo_str option, const char *variable, const char *usual,
                         const char *key, waldo_error **ret_err)
{
    waldo_str text = option.len > 0 ? option : waldo__str(waldo__env(variable));
    int is_url = strcmp(key, "domain") != 0;
    int good;

    text = text.len > 0 ? text : waldo__str(usual);
    while (is_url && text.len > 0 && text.ptr[text.len - 1] == '/') {
        text.len--;
    }
    good = text.len < E2B_URL_MAX && (text.len == 0 || in_class(text, is_url ? "-._:/[]" : "-.:"));
    if (is_url && text.len > 0) {
        good &= waldo__str_starts(text, "https://") || waldo__str_starts(text, "http://");
    }
    if (!good) {
        return waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                               is_url
                                   ? "e2b: %s must be a URL such as https://api.e2b.app, without "
                                     "query (or %s, which is set)"
                                   : "e2b: %s must be a domain such as e2b.app (or %s, which is "
                                     "set)",
                               key, variable);
    }
    memcpy(ret, text.ptr, text.len);
    ret[text.len] = '\0';
    return WALDO_OK;
}

static waldo_status check(const waldo_backend_spec *spec, waldo_error **ret_err)
{
    const char *wrong = NULL;

    if (spec->target.len > 0 && (spec->target.len > 200 || !in_class(spec->target, "-._/:"))) {
        wrong = "the template's name holds a character that no template's name has";
    } else if (spec->memory_bytes > 0 || spec->cpus > 0 || spec->max_processes > 0) {
        wrong =
            "memory and processors are the template's; leave memory, cpus and pids out, or name "
            "another template";
    } else if (spec->attach != NULL && spec->target.len > 0) {
        wrong = "attach is used without a template: e2b:,attach=ID";
    } else if (spec->name != NULL && strlen(spec->name) > 128) {
        wrong = "name may have 128 characters";
    }
    return wrong == NULL
               ? WALDO_OK
               : waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE, "e2b: %s", wrong);
}

waldo_status waldo__e2b_place_find(e2b_place *place, const waldo_backend_env *env,
                                   const waldo_backend_spec *spec, waldo_error **ret_err)
{
    waldo_str user = waldo__e2b_option(spec, "user");
    char usual[E2B_URL_MAX + 16];
    waldo_status status = check(spec, ret_err);

    *place = (e2b_place){ .env = env };
    user = user.len > 0 ? user : WALDO__S("user");
    if (status == WALDO_OK && (user.len >= E2B_WORD_MAX || !in_class(user, "-_."))) {
        status = waldo_error_set(ret_err, WALDO_EINVAL, WALDO_CLASS_USAGE,
                                 "e2b: user must be the name of a user of the template");
    }
    if (status == WALDO_OK) {
        memcpy(place->user, user.ptr, user.len);
        status = take(place->domain, waldo__e2b_option(spec, "domain"), "E2B_DOMAIN", "e2b.app",
                      "domain", ret_err);
    }
    if (status == WALDO_OK) {
        snprintf(usual, sizeof usual, "https://api.%s", place->domain);
        status =
            take(place->api, waldo__e2b_option(spec, "api"), "E2B_API_URL", usual, "api", ret_err);
    }
    if (status == WALDO_OK) {
        status = take(place->envd, waldo__e2b_option(spec, "envd"), "E2B_SANDBOX_URL", "", "envd",
                      ret_err);
    }
    return status;
}
