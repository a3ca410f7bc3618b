#include <waldo/keys.h>

#include "base/env.h"
#include "base/str.h"

static waldo_status get_from_env(void *userdata, const char *name, waldo_str *ret_value,
                                 int64_t *ret_expires_at)
{
    const char *value = waldo__env(name);

    (void)userdata;
    if (value == NULL) {
        return WALDO_ENOTFOUND;
    }
    *ret_value = waldo__str(value);
    *ret_expires_at = 0;
    return WALDO_OK;
}

const waldo_keys *waldo_keys_from_env(void)
{
    static const waldo_keys keys = { .size = sizeof keys, .get = get_from_env };

    return &keys;
}
