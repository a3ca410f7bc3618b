#include "base/header.h"

/* What a server may ask for at most; more is taken for this much. */
enum { LONGEST_WAIT_S = 366 * 86400 };

int waldo__header_get(waldo_str headers, const char *name, waldo_str *ret_value)
{
    waldo_str line;

    while (waldo__str_split(&headers, '\n', &line)) {
        size_t colon = waldo__str_find(line, ':');

        if (colon < line.len &&
            waldo__str_ieq(waldo__str_trim(waldo__slice(line.ptr, colon)), waldo__str(name))) {
            *ret_value = waldo__str_trim(waldo__slice(line.ptr + colon + 1, line.len - colon - 1));
            return 1;
        }
    }
    return 0;
}

/*
 * A decimal such as "1.5" in thousandths; 0 when text is not one. Digits behind the third are cut.
 */
static int parse_thousandths(waldo_str text, int64_t *ret_value)
{
    int64_t value = 0, unit = 1000;
    int digits = 0, in_fraction = 0;

    for (size_t i = 0; i < text.len; i++) {
        int digit = text.ptr[i] - '0';

        if (text.ptr[i] == '.' && !in_fraction) {
            in_fraction = 1;
            continue;
        }
        if (digit < 0 || digit > 9) {
            return 0;
        }
        digits++;
        if (in_fraction) {
            unit /= 10;
            value += digit * unit;
        } else if (value < LONGEST_WAIT_S * INT64_C(1000000)) {
            value = value * 10 + digit * INT64_C(1000);
        }
    }
    *ret_value = value;
    return digits > 0;
}

/* Two to four digits at a fixed place. */
static int parse_digits(waldo_str text, size_t at, size_t count, int64_t *ret_value)
{
    return waldo__str_int(waldo__slice(text.ptr + at, count), ret_value) && *ret_value >= 0;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days_from_civil(int64_t year, int64_t month, int64_t day)
{
    int64_t years = month <= 2 ? year - 1 : year; /* years begin in March, leap days end them */
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return years * 365 + years / 4 - years / 100 + years / 400 + day_of_year - 719468;
}

static int64_t stamp_ms(int64_t year, int64_t month, int64_t day, const int64_t clock[3])
{
    return (((days_from_civil(year, month, day) * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2]) *
           1000;
}

int64_t waldo__rfc3339_ms(waldo_str text)
{
    int64_t day, month, year, clock[3];

    if (text.len < 20 || !parse_digits(text, 0, 4, &year) || !parse_digits(text, 5, 2, &month) ||
        !parse_digits(text, 8, 2, &day) || !parse_digits(text, 11, 2, &clock[0]) ||
        !parse_digits(text, 14, 2, &clock[1]) || !parse_digits(text, 17, 2, &clock[2])) {
        return 0;
    }
    return stamp_ms(year, month, day, clock);
}

/* The date form that HTTP prescribes: "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7). */
static int parse_date(waldo_str text, int64_t *ret_ms)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t day, month = 0, year, hour, minute, second;

    if (text.len != 29 || text.ptr[3] != ',' || !waldo__str_ends(text, " GMT")) {
        return 0;
    }
    for (int64_t i = 0; i < 12; i++) {
        if (memcmp(months + 3 * i, text.ptr + 8, 3) == 0) {
            month = i + 1;
        }
    }
    if (month == 0 || !parse_digits(text, 5, 2, &day) || !parse_digits(text, 12, 4, &year) ||
        !parse_digits(text, 17, 2, &hour) || !parse_digits(text, 20, 2, &minute) ||
        !parse_digits(text, 23, 2, &second)) {
        return 0;
    }
    *ret_ms = stamp_ms(year, month, day, (const int64_t[]){ hour, minute, second });
    return 1;
}

int64_t waldo__header_retry_after_ms(waldo_str headers, int64_t wall_ms)
{
    waldo_str value;
    int64_t parsed;

    if (waldo__header_get(headers, "retry-after-ms", &value) && parse_thousandths(value, &parsed)) {
        return (parsed + 999) / 1000;
    }
    if (!waldo__header_get(headers, "retry-after", &value)) {
        return -1;
    }
    if (parse_thousandths(value, &parsed)) {
        return parsed;
    }
    if (parse_date(value, &parsed)) {
        return parsed > wall_ms ? parsed - wall_ms : 0;
    }
    return -1;
}

int waldo__header_should_retry(waldo_str headers)
{
    waldo_str value;

    if (!waldo__header_get(headers, "x-should-retry", &value)) {
        return -1;
    }
    return waldo__str_is(value, "true") ? 1 : waldo__str_is(value, "false") ? 0 : -1;
}
