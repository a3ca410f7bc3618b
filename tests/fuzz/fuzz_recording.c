/* Recordings: any bytes are one or are refused, and what was read compares with itself. */
#include "fuzz.h"

#include "model/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_str text = waldo__strn((const char *)data, size);
    waldo__recording *recording = NULL;
    waldo_error *error = NULL;

    if (waldo__recording_parse("fuzz", text, &recording, &error) != WALDO_OK) {
        must_hold(error != NULL && recording == NULL, "a refusal says why");
        waldo_error_free(error);
        return 0;
    }
    must_hold(waldo__recording_count(recording) > 0, "a recording holds a request");
    for (size_t i = 0; i < waldo__recording_count(recording); i++) {
        const waldo__exchange *exchange = waldo__recording_at(recording, i);
        waldo__exchange other = *exchange;

        must_hold(waldo__recording_compare(recording, i, exchange, NULL) == WALDO_OK,
                  "a request is itself");
        other.body = waldo__strn(exchange->body.ptr, exchange->body.len / 2);
        if (other.body.len != exchange->body.len) {
            must_hold(waldo__recording_compare(recording, i, &other, &error) == WALDO_EPROTO,
                      "half of a request is another one");
            waldo_error_free(error);
            error = NULL;
        }
    }
    waldo__recording_free(recording);
    return 0;
}
