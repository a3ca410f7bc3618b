/* Base64. */
#ifndef WALDO_BASE_BASE64_H
#define WALDO_BASE_BASE64_H

#include "base/buf.h"

/* Its digits, which begin with the 62 letters and digits. */
enum { WALDO__ALNUM = 62 };
extern const char waldo__base64_digits[];

/* Append bytes in the standard alphabet, with padding. */
waldo_status waldo__base64(waldo_str bytes, waldo__buf *out);

/* Append what the text says; WALDO_EINVAL when it is none. Padding may be missing. */
waldo_status waldo__base64_decode(waldo_str text, waldo__buf *out);

#endif
