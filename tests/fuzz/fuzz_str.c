/* Borrowed text: whatever the bytes, parts stay inside the text and together make it again. */
#include "fuzz.h"

#include <string.h>

#include "base/str.h"

static int inside(waldo_str part, waldo_str text)
{
    return part.len == 0 || (part.ptr >= text.ptr && part.ptr + part.len <= text.ptr + text.len);
}

static void check_split(waldo_str text)
{
    waldo_str rest = text;
    waldo_str part;
    size_t bytes = 0;
    size_t parts = 0;

    while (waldo__str_split(&rest, ',', &part)) {
        must_hold(inside(part, text), "a part lies in the text");
        must_hold(waldo__str_find(part, ',') == part.len, "a part holds no separator");
        bytes += part.len;
        parts++;
    }
    must_hold(parts == 0 ? text.len == 0 : bytes + parts - 1 == text.len,
              "the parts make the text");
}

static void check_search(waldo_str text)
{
    size_t half = text.len / 2;
    waldo_str needle = { text.ptr + half, text.len - half };
    size_t at = waldo__str_search(text, needle, 0);

    must_hold(at <= half, "a needle from the text is found, no later than where it came from");
    must_hold(memcmp(text.ptr + at, needle.ptr, needle.len) == 0, "what was found is the needle");
}

static void check_number(waldo_str text)
{
    int64_t value = 0;

    if (waldo__str_int(text, &value)) {
        char digits[32];
        int len = snprintf(digits, sizeof digits, "%lld", (long long)value);
        int64_t again = 0;

        must_hold(waldo__str_int(waldo__strn(digits, (size_t)len), &again) && again == value,
                  "a number is read back from its digits");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo_str text = waldo__strn((const char *)data, size);
    waldo_str trimmed = waldo__str_trim(text);

    must_hold(inside(trimmed, text), "the trimmed text lies in the text");
    must_hold(waldo__str_trim(trimmed).len == trimmed.len, "trimming twice changes nothing");
    check_split(text);
    check_search(text);
    check_number(trimmed);
    return 0;
}
