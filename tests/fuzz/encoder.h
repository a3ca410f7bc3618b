/* Writes a history through an adapter's ops: every request begins as those before it did. */
#ifndef WALDO_TESTS_FUZZ_ENCODER_H
#define WALDO_TESTS_FUZZ_ENCODER_H

#include "fuzz.h"

#include <stdlib.h>

#include "base/buf.h"
#include "json/json.h"
#include "model/model.h"

typedef struct fuzz_target {
    const waldo_model_ops *ops;
    const char *vendor; /* of all items */
    const char *const *urls;
    size_t url_count;
    void (*check)(waldo_str body);
    const char *quirks; /* when the first byte is odd */
} fuzz_target;

static waldo_item make_item(const char *vendor, const uint8_t *data, size_t len)
{
    waldo_str text = waldo__strn((const char *)data + 3, len - 3);
    waldo_item item = { .kind = data[0] % 8 != 0 ? data[0] % 8 : WALDO_ITEM_USER,
                        .is_error = data[0] >> 7,
                        .text = text,
                        .name = text,
                        .args = text,
                        .raw = text,
                        .vendor = waldo__str(vendor) };

    /* those of other kinds mean nothing */
    static const waldo_media media[] = { { { "image/png", 9 }, { "iVBORw0KGgo=", 12 } },
                                         { { "image/gif", 9 }, { "R0lGODlh", 8 } } };

    item.media = media;
    item.media_count = data[0] % 5 < 2 ? data[0] % 5 + 1u : 0;
    /* few ids, so that results find their calls */
    item.id = waldo__strn((const char *)data + 1, data[2] % 3);
    item.response = waldo__str(data[0] % 3 == 1 ? "resp_1" : "");
    return item;
}

/* The first byte chooses a URL, each three bytes begin an item, whose text is what follows. */
static void fuzz_encoder(const fuzz_target *target, const uint8_t *data, size_t size)
{
    waldo_model_options options = { .size = sizeof options };
    waldo_model_epoch epoch = { .size = sizeof epoch,
                                .options = &options,
                                .model = waldo__str("m") };
    waldo__buf frozen = WALDO__BUF_INIT(1 << 24);
    waldo_encoder *encoder = NULL;

    if (size < 1) {
        return;
    }
    epoch.url = waldo__str(target->urls[data[0] % target->url_count]);
    options.quirks = data[0] % 2 != 0 ? target->quirks : NULL;
    if (target->ops->new_encoder(&epoch, &encoder, NULL) != WALDO_OK) {
        abort();
    }
    for (size_t at = 1; at + 3 <= size;) {
        size_t len = 3 + (size_t)data[at + 1] % 13;
        waldo_model_turn turn = { .size = sizeof turn, .tool_choice = 0 };
        waldo_model_request request;
        waldo_item item;

        len = len < size - at ? len : size - at;
        item = make_item(target->vendor, data + at, len);
        at += len;
        if (target->ops->append(encoder, &item, 1, NULL) != WALDO_OK) {
            abort();
        }
        if (target->ops->request(encoder, &turn, &request, NULL) == WALDO_OK) {
            target->check(request.body);
            if (request.body.len < frozen.len || request.frozen_len < frozen.len ||
                memcmp(request.body.ptr, waldo__buf_str(&frozen).ptr, frozen.len) != 0) {
                abort();
            }
            waldo__buf_clear(&frozen);
            waldo__buf_add(&frozen, request.body.ptr, request.frozen_len);
        }
    }
    target->ops->free_encoder(encoder);
    waldo__buf_free(&frozen);
}

#endif
