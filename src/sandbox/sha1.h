/* SHA-1, for the blob names in patches only: git's format asks for it. Not for security. */
#ifndef WALDO_SANDBOX_SHA1_H
#define WALDO_SANDBOX_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define WALDO__SHA1_LEN 20

typedef struct waldo__sha1 {
    uint32_t state[5];
    uint64_t total;
    unsigned char block[64];
} waldo__sha1;

void waldo__sha1_init(waldo__sha1 *sha);
void waldo__sha1_add(waldo__sha1 *sha, const void *bytes, size_t len);
void waldo__sha1_finish(waldo__sha1 *sha, unsigned char digest[WALDO__SHA1_LEN]);

#endif
