#include "backend/endpoint.h"

#include "backend/labels.h"
#include "base/env.h"
#include "base/error.h"

static int is_good(waldo_str text, waldo__endpoint_kind kind)
{
    if (text.len >= WALDO__ENDPOINT_MAX) {
        return 0;
    }
    if (kind == WALDO__ENDPOINT_DOMAIN) {
        return text.len == 0 || waldo__str_made_of(text, "-.:");
    }
    return text.len == 0 ||
           (waldo__str_made_of(text, "-._:/[]") &&
            (waldo__str_starts(text, "https://") || waldo__str_starts(text, "http://")));
}

waldo_status waldo__endpoint_find(const waldo__endpoint *endpoint, const waldo_backend_spec *spec,
                                  const char *usual, char ret[WALDO__ENDPOINT_MAX],
                                  waldo_error **ret_err)
{
    int is_url = endpoint->kind == WALDO__ENDPOINT_URL;
    waldo_str text = waldo__backend_option(spec, endpoint->key);

    text = text.len > 0 ? text : waldo__str(waldo__env(endpoint->variable));
    text = text.len > 0 ? text : waldo__str(usual);
    while (is_url && text.len > 0 && text.ptr[text.len - 1] == '/') {
        text.len--;
    }
    if (!is_good(text, endpoint->kind)) {
        return waldo__error_invalid(ret_err, "%s: %s (or %s, which is set) must be %s such as %s%s",
                                    endpoint->backend, endpoint->key, endpoint->variable,
                                    is_url ? "a URL" : "a domain", endpoint->example,
                                    is_url ? ", without query" : "");
    }
    memcpy(ret, text.ptr, text.len);
    ret[text.len] = '\0';
    return WALDO_OK;
}
