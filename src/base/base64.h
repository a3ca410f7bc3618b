/* Base64. */
#ifndef WALDO_BASE_BASE64_H
#define WALDO_BASE_BASE64_H

#include "base/buf.h"

/* Append bytes in the standard alphabet, with padding. */
waldo_status waldo__base64(waldo_str bytes, waldo__buf *out);

/* Append what the text says; WALDO_EINVAL when it is none. Padding may be missing. */
waldo_status waldo__base64_decode(waldo_str text, waldo__buf *out);

#endif
