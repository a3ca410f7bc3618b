/* usage: tar-tool < ARCHIVE: one line for each entry, with a checksum of its data. */
#include <inttypes.h>
#include <stdio.h>

#include "codec/untar.h"

static uint32_t sum;
static int entries;

static waldo_status on_entry(void *userdata, const waldo__untar_entry *entry)
{
    (void)userdata;
    if (entries++ > 0) {
        printf(" %" PRIu32 "\n", sum);
    }
    sum = 0;
    printf("%d %o %" PRIu64 " %" PRId64 " ", (int)entry->kind, entry->mode, entry->size,
           entry->mtime_s);
    for (size_t i = 0; i < entry->name.len; i++) {
        printf("%02x", (unsigned char)entry->name.ptr[i]);
    }
    putchar(' ');
    for (size_t i = 0; i < entry->link.len; i++) {
        printf("%02x", (unsigned char)entry->link.ptr[i]);
    }
    return WALDO_OK;
}

static waldo_status on_data(void *userdata, waldo_str bytes)
{
    (void)userdata;
    for (size_t i = 0; i < bytes.len; i++) {
        sum = sum * 31 + (unsigned char)bytes.ptr[i];
    }
    return WALDO_OK;
}

int main(void)
{
    static const waldo__untar_fns fns = { .entry = on_entry, .data = on_data };
    static char block[10000];
    waldo__untar untar;
    waldo_status status = WALDO_OK;
    size_t len;

    waldo__untar_init(&untar, &fns, NULL);
    while (status == WALDO_OK && (len = fread(block, 1, sizeof block, stdin)) > 0) {
        status = waldo__untar_feed(&untar, waldo__strn(block, len));
    }
    if (entries > 0) {
        printf(" %" PRIu32 "\n", sum);
    }
    fprintf(stderr, "%s", status != WALDO_OK ? waldo_status_name(status) : "");
    status = status == WALDO_OK && !waldo__untar_whole(&untar) ? WALDO_ETRUNCATED : status;
    waldo__untar_free(&untar);
    return status != WALDO_OK;
}
