/* The hand programs as bytes inside the library, one for each kind of processor. */
#ifndef WALDO_HAND_EMBEDDED_H
#define WALDO_HAND_EMBEDDED_H

#include <stddef.h>

#define WALDO__HAND_SHA256_LEN 32

typedef struct {
    const char *name; /* of the processor, as uname has it: "x86_64", "aarch64" */
    const char *arch; /* the same as container images have it: "amd64", "arm64" */
    unsigned char *image;
    size_t len;
    const unsigned char *sha256; /* made when it was built: whoever writes it somewhere checks */
    const unsigned char *packed; /* the image before any was asked for */
    size_t packed_len;
} waldo__hand_program;

/* Made by embed.py; to be had by the functions below. */
extern const waldo__hand_program waldo__hands[];
extern const size_t waldo__hand_count;
extern const size_t waldo__hand_native_index;

/* NULL past the last; there is none at all where the library was built with -Dhands=none. */
const waldo__hand_program *waldo__hand_at(size_t index);

/* The one for the processor this library runs on, or NULL. */
const waldo__hand_program *waldo__hand_native(void);

#endif
