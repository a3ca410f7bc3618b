/* The first byte cuts the rest into pieces; whatever the pieces, the streams must be the same. */
#include "fuzz.h"

#include "base/buf.h"
#include "codec/docker_frames.h"

typedef struct streams {
    waldo__buf of[4];
} streams;

static waldo_status take(void *userdata, waldo__docker_stream stream, waldo_str bytes)
{
    streams *all = userdata;

    must_hold((unsigned)stream < 4 && bytes.len > 0, "a piece of one of four streams");
    return waldo__buf_add_str(&all->of[stream], bytes);
}

static waldo_status read_all(const uint8_t *data, size_t size, size_t step, streams *all,
                             int *ret_whole)
{
    waldo__docker_frames frames = { .left = 0 };
    waldo_status status = WALDO_OK;

    for (size_t i = 0; i < 4; i++) {
        waldo__buf_init(&all->of[i], 1 << 24);
    }
    for (size_t at = 0; at < size && status == WALDO_OK; at += step) {
        size_t len = size - at < step ? size - at : step;

        status = waldo__docker_frames_feed(&frames, waldo__strn((const char *)data + at, len), take,
                                           all);
    }
    *ret_whole = waldo__docker_frames_whole(&frames);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    streams whole;
    streams cut;
    int ends[2];
    waldo_status status;

    if (size < 2) {
        return 0;
    }
    status = read_all(data + 1, size - 1, size, &whole, &ends[0]);
    must_hold(read_all(data + 1, size - 1, (size_t)data[0] % 32 + 1, &cut, &ends[1]) == status &&
                  ends[0] == ends[1],
              "the same end at every split");
    for (size_t i = 0; i < 4; i++) {
        must_hold(waldo__str_eq(waldo__buf_str(&whole.of[i]), waldo__buf_str(&cut.of[i])),
                  "the same bytes at every split");
        waldo__buf_free(&whole.of[i]);
        waldo__buf_free(&cut.of[i]);
    }
    return 0;
}
