#include <waldo/defs.h>

const char *waldo_version(void)
{
    return WALDO_VERSION_STRING;
}
