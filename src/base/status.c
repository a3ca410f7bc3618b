#include <waldo/status.h>

#include "base/alloc.h"

static const struct {
    waldo_status status;
    int retryable;
    const char *name;
    const char *text;
} table[] = {
#define ROW(name, value, retryable, text) { (value), (retryable), "WALDO_" #name, (text) },
    WALDO_STATUS_MAP(ROW)
#undef ROW
};

const char *waldo_status_name(waldo_status status)
{
    for (size_t i = 0; i < WALDO__COUNT(table); i++) {
        if (table[i].status == status) {
            return table[i].name;
        }
    }
    return "WALDO_E?";
}

const char *waldo_status_text(waldo_status status)
{
    for (size_t i = 0; i < WALDO__COUNT(table); i++) {
        if (table[i].status == status) {
            return table[i].text;
        }
    }
    return "unknown status";
}

int waldo_status_retryable(waldo_status status)
{
    for (size_t i = 0; i < WALDO__COUNT(table); i++) {
        if (table[i].status == status) {
            return table[i].retryable;
        }
    }
    return 0;
}
