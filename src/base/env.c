#include "base/env.h"

#include <stdlib.h>

const char *waldo__env(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}
