/* The first byte cuts the rest into pieces; whatever the pieces, the messages must be the same. */
#include "fuzz.h"

#include "codec/connect.h"

enum { LARGEST = 1024 };

typedef struct found {
    waldo__buf text;
    size_t count;
} found;

static waldo_status take(void *userdata, int last, waldo_str message)
{
    found *f = userdata;

    must_hold(message.len <= LARGEST, "no message above the largest");
    f->count++;
    waldo__buf_putc(&f->text, last ? '!' : '|');
    return waldo__buf_add_str(&f->text, message);
}

static waldo_status read_all(const uint8_t *data, size_t size, size_t step, found *f,
                             int *ret_ended)
{
    waldo__connect connect;
    waldo_status status = WALDO_OK;

    waldo__connect_init(&connect, LARGEST);
    *f = (found){ .text = WALDO__BUF_INIT(1 << 24) };
    for (size_t at = 0; at < size && status == WALDO_OK; at += step) {
        size_t len = size - at < step ? size - at : step;

        status = waldo__connect_feed(&connect, waldo__strn((const char *)data + at, len), take, f);
    }
    *ret_ended = waldo__connect_ended(&connect);
    waldo__connect_free(&connect);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    found whole;
    found cut;
    int ends[2];
    waldo_status status;

    if (size < 2) {
        return 0;
    }
    status = read_all(data + 1, size - 1, size, &whole, &ends[0]);
    must_hold(read_all(data + 1, size - 1, (size_t)data[0] % 32 + 1, &cut, &ends[1]) == status &&
                  ends[0] == ends[1] && whole.count == cut.count,
              "the same end at every split");
    must_hold(waldo__str_eq(waldo__buf_str(&whole.text), waldo__buf_str(&cut.text)),
              "the same messages at every split");
    waldo__buf_free(&whole.text);
    waldo__buf_free(&cut.text);
    return 0;
}
