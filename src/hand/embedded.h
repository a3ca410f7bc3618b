/* The hand programs as bytes inside the library, one for each kind of processor. */
#ifndef WALDO_HAND_EMBEDDED_H
#define WALDO_HAND_EMBEDDED_H

#include <pthread.h>
#include <stddef.h>

#define WALDO__HAND_SHA256_LEN 32

typedef struct {
    const char *name;    /* of the processor, as uname has it: "x86_64", "aarch64" */
    const char *arch;    /* the same as container images have it: "amd64", "arm64" */
    unsigned char *room; /* for the image, once it is asked for */
    size_t len;
    const unsigned char *sha256; /* made when it was built: whoever writes it somewhere checks */
    pthread_once_t *once;
    void (*unpack)(void);
} waldo__hand_program;

/* Made by embed.py; to be had by the functions below. */
extern const waldo__hand_program waldo__hands[];
extern const size_t waldo__hand_count;
extern const size_t waldo__hand_native_index;

/* NULL past the last; there is none at all where the library was built with -Dhands=none. */
const waldo__hand_program *waldo__hand_at(size_t index);

/* The one for the processor this library runs on, or NULL. */
const waldo__hand_program *waldo__hand_native(void);

/* Its len bytes, unpacked by whoever asks first. */
const char *waldo__hand_image(const waldo__hand_program *program);

/* For what embed.py makes: packed bytes into exactly as many as they were. */
void waldo__hand_unpack(const unsigned char *packed, size_t packed_len, unsigned char *image,
                        size_t len);

#endif
