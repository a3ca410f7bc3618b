/* The hand program as bytes inside the library. */
#ifndef WALDO_HAND_EMBEDDED_H
#define WALDO_HAND_EMBEDDED_H

#include <stddef.h>

#define WALDO__HAND_SHA256_LEN 32

/* Static. NULL with length 0 when the library was built with -Dhands=none. */
const unsigned char *waldo__hand_image(size_t *ret_len);

/* SHA-256 of the image, made when it was built: whoever writes it somewhere checks against it. */
const unsigned char *waldo__hand_sha256(void);

#endif
