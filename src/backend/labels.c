#include "backend/labels.h"

#include <stdio.h>

#include "base/ident.h"

void waldo__labels_put(waldo__json_writer *jw, const char *owner, const char *run, const char *name,
                       int64_t lease_ms)
{
    char lease[24] = "ephemeral";
    waldo__ident self;

    waldo__ident_self(&self);
    if (lease_ms > 0) {
        snprintf(lease, sizeof lease, "%lld", (long long)lease_ms);
    }
    waldo__jw_text(jw, WALDO__LABEL_OWNER, owner);
    waldo__jw_text(jw, WALDO__LABEL_RUN, run);
    waldo__jw_text(jw, WALDO__LABEL_LEASE, lease);
    if (name != NULL) {
        waldo__jw_text(jw, WALDO__LABEL_NAME, name);
    }
    waldo__jw_text(jw, WALDO__LABEL_PID, self.pid);
    waldo__jw_text(jw, WALDO__LABEL_START, self.start);
    waldo__jw_text(jw, WALDO__LABEL_HOST, self.host);
    waldo__jw_text(jw, WALDO__LABEL_USER, self.user);
}

int64_t waldo__labels_lease(const waldo__json_value *labels)
{
    int64_t ms = 0;

    waldo__str_int(waldo__json_get_str(labels, WALDO__LABEL_LEASE), &ms);
    return ms > 0 && ms < UINT32_MAX ? ms : 0;
}

/* Texts end in NUL. */
void waldo__labels_read(const waldo__json_value *labels, waldo_sandbox_info *info)
{
    waldo_str start = waldo__json_get_str(labels, WALDO__LABEL_START);
    waldo_str host = waldo__json_get_str(labels, WALDO__LABEL_HOST);

    info->owner_alive =
        waldo__ident_alive(waldo__json_get_str(labels, WALDO__LABEL_PID), start, host);
    info->mine = waldo__ident_is_mine(waldo__json_get_str(labels, WALDO__LABEL_USER), start, host);
    info->name = waldo__json_get_str(labels, WALDO__LABEL_NAME).ptr;
    info->owner = waldo__json_get_str(labels, WALDO__LABEL_OWNER).ptr;
    info->lease_ms = waldo__labels_lease(labels);
}

waldo_str waldo__backend_option(const waldo_backend_spec *spec, const char *key)
{
    waldo_str value = { "", 0 };

    for (size_t i = 0; i < spec->option_count; i++) {
        if (waldo__str_is(spec->options[i].key, key)) {
            value = spec->options[i].value;
        }
    }
    return value;
}
