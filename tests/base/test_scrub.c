/* The scrubber: every form of a value, at every place, however the text is split. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "secret/secret.h"

/* With bytes that each encoding treats in its own way. */
static const char key[] = "sk-T3st/+ \"k\\y~%41?\xc3\xbf>>>end";

enum { KEY_LEN = sizeof key - 1 };

static waldo__secrets *make_secrets(waldo_str value)
{
    waldo__secrets *secrets = NULL;

    assert_int_equal(waldo__secrets_new(&secrets, NULL), WALDO_OK);
    assert_int_equal(waldo__secrets_put(secrets, "KEY", value, 0), WALDO_OK);
    return secrets;
}

static void scrub_is(const waldo__secrets *secrets, waldo_str text, const char *want)
{
    waldo__buf out = WALDO__BUF_INIT(1 << 20);

    assert_int_equal(waldo__scrub(secrets, text, &out), WALDO_OK);
    assert_string_equal(waldo__buf_str(&out).ptr, want);
    assert_int_equal(waldo__secrets_found(secrets, text), strstr(want, "[KEY]") != NULL);
    waldo__buf_free(&out);
}

/* ---- the forms, each made by its own little encoder ---- */

static void add_percent(waldo__buf *out, const char *value, const char *unreserved,
                        const char *format)
{
    for (const char *at = value; *at != '\0'; at++) {
        if (unreserved != NULL && ((isalnum((unsigned char)*at) && (unsigned char)*at < 0x80) ||
                                   strchr(unreserved, *at) != NULL)) {
            waldo__buf_putc(out, *at);
        } else {
            waldo__buf_printf(out, strcmp(format, "x") == 0 ? "%%%02x" : "%%%02X",
                              (unsigned char)*at);
        }
    }
}

static void add_form_encoded(waldo__buf *out, const char *value)
{
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == ' ') {
            waldo__buf_putc(out, '+');
        } else {
            add_percent(out, (char[]){ *at, '\0' }, "*-._", "X");
        }
    }
}

static void add_hex(waldo__buf *out, const char *value, int upper, size_t wrap)
{
    for (size_t i = 0; value[i] != '\0'; i++) {
        if (wrap != 0 && i > 0 && i % wrap == 0) {
            waldo__buf_putc(out, '\n');
        }
        waldo__buf_printf(out, upper ? "%02X" : "%02x", (unsigned char)value[i]);
    }
}

/* The digits of base64 that depend on the value alone, when so many bytes come before it. */
static void add_base64(waldo__buf *out, waldo_str value, size_t offset, int url_safe,
                       const char *wrap, size_t width)
{
    waldo__buf whole = WALDO__BUF_INIT(4096), encoded = WALDO__BUF_INIT(8192);
    size_t begin = (8 * offset + 5) / 6, end = 8 * (offset + value.len) / 6;

    waldo__buf_add(&whole, "ab", offset);
    waldo__buf_add_str(&whole, value);
    waldo__base64(waldo__buf_str(&whole), &encoded);
    for (size_t i = begin; i < end; i++) {
        char digit = encoded.ptr[i];

        if (wrap != NULL && i > begin && (i - begin) % width == 0) {
            waldo__buf_puts(out, wrap);
        }
        digit = url_safe && digit == '+' ? '-' : url_safe && digit == '/' ? '_' : digit;
        waldo__buf_putc(out, digit);
    }
    waldo__buf_free(&whole);
    waldo__buf_free(&encoded);
}

static void add_json(waldo__buf *out, const char *value, int slashes)
{
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\' || (slashes && *at == '/')) {
            waldo__buf_putc(out, '\\');
        }
        waldo__buf_putc(out, *at);
    }
}

enum { FORMS = 28 };

static void add_form(waldo__buf *out, size_t form)
{
    waldo_str value = { key, KEY_LEN };

    switch (form) {
    case 0:
        waldo__buf_add_str(out, value);
        break;
    case 1:
        add_percent(out, key, "-._~", "X");
        break;
    case 2:
        add_percent(out, key, "-._~", "x");
        break;
    case 3:
        add_percent(out, key, "-._~/?:@!$&'()*+,;=", "X");
        break;
    case 4:
        add_percent(out, key, NULL, "X");
        break;
    case 5:
        add_percent(out, key, NULL, "x");
        break;
    case 6:
        add_form_encoded(out, key);
        break;
    case 7:
        add_hex(out, key, 0, 0);
        break;
    case 8:
        add_hex(out, key, 1, 0);
        break;
    case 9:
        add_hex(out, key, 0, 2);
        break;
    case 10:
        add_hex(out, key, 1, 7);
        break;
    case 11:
        add_json(out, key, 0);
        break;
    case 12:
        add_json(out, key, 1);
        break;
    case 13:
        add_hex(out, key, 0, 1);
        break;
    case 14:
        add_base64(out, value, 0, 0, "\r\n", 1);
        break;
    case 15:
        add_base64(out, value, 1, 0, "\n", 3);
        break;
    default:
        form -= 16;
        add_base64(out, value, form % 3, form / 3 % 2, form / 6 == 0 ? NULL : "\n", 19);
        break;
    }
}

static void finds_every_form_at_every_place(void **state)
{
    waldo__secrets *secrets = make_secrets(waldo__strn(key, KEY_LEN));

    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        for (size_t before = 0; before < 9; before++) {
            for (size_t after = 0; after < 3; after++) {
                waldo__buf text = WALDO__BUF_INIT(4096);
                char want[32];

                waldo__buf_add(&text, "(((((((((", before);
                add_form(&text, form);
                waldo__buf_add(&text, "))", after);
                (void)snprintf(want, sizeof want, "%.*s[KEY]%.*s", (int)before, "(((((((((",
                               (int)after, "))");
                scrub_is(secrets, waldo__buf_str(&text), want);
                waldo__buf_free(&text);
            }
        }
    }
    waldo__secrets_free(secrets);
}

static void finds_every_form_at_every_split(void **state)
{
    waldo__secrets *secrets = make_secrets(waldo__strn(key, KEY_LEN));

    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        waldo__buf text = WALDO__BUF_INIT(4096);

        waldo__buf_puts(&text, "one=");
        add_form(&text, form);
        waldo__buf_puts(&text, "&two=");
        add_form(&text, form);
        waldo__buf_puts(&text, "!");
        for (size_t a = 0; a <= text.len; a++) {
            waldo__buf out = WALDO__BUF_INIT(4096);
            waldo__scrubber scrubber;

            waldo__scrubber_init(&scrubber, secrets);
            waldo__scrubber_feed(&scrubber, waldo__strn(text.ptr, a), &out);
            waldo__scrubber_feed(&scrubber, waldo__strn(text.ptr + a, text.len - a), &out);
            assert_int_equal(waldo__scrubber_finish(&scrubber, &out), WALDO_OK);
            assert_string_equal(waldo__buf_str(&out).ptr, "one=[KEY]&two=[KEY]!");
            waldo__scrubber_free(&scrubber);
            waldo__buf_free(&out);
        }
        waldo__buf_free(&text);
    }
    waldo__secrets_free(secrets);
}

static void finds_every_form_byte_by_byte(void **state)
{
    waldo__secrets *secrets = make_secrets(waldo__strn(key, KEY_LEN));

    (void)state;
    for (size_t form = 0; form < FORMS; form++) {
        waldo__buf text = WALDO__BUF_INIT(4096), out = WALDO__BUF_INIT(4096);
        waldo__scrubber scrubber;

        add_form(&text, form);
        waldo__scrubber_init(&scrubber, secrets);
        for (size_t i = 0; i < text.len; i++) {
            waldo__scrubber_feed(&scrubber, waldo__strn(text.ptr + i, 1), &out);
            assert_int_equal(out.len == 0 || out.len == 5, 1); /* all or nothing */
        }
        waldo__scrubber_finish(&scrubber, &out);
        assert_string_equal(waldo__buf_str(&out).ptr, "[KEY]");
        waldo__scrubber_free(&scrubber);
        waldo__buf_free(&out);
        waldo__buf_free(&text);
    }
    waldo__secrets_free(secrets);
}

/* Basic authentication: a value in the middle of a larger base64 text. */
static void finds_a_value_inside_of_base64(void **state)
{
    waldo__secrets *secrets = make_secrets(WALDO__S("correct-horse-battery"));
    static const char *const users[] = { "u", "us", "use", "user", "users" };

    (void)state;
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        waldo__buf plain = WALDO__BUF_INIT(100), text = WALDO__BUF_INIT(200);

        waldo__buf_printf(&plain, "%s:correct-horse-battery:x", users[i]);
        waldo__base64(waldo__buf_str(&plain), &text);
        assert_int_equal(waldo__secrets_found(secrets, waldo__buf_str(&text)), 1);
        waldo__buf_free(&plain);
        waldo__buf_free(&text);
    }
    waldo__secrets_free(secrets);
}

static void leaves_other_text_alone(void **state)
{
    waldo__secrets *secrets = make_secrets(WALDO__S("sk-abcdefgh1234"));
    static const char *const texts[] = {
        "",
        "s",
        "sk-abcdefgh123",
        "k-abcdefgh1234",
        "SK-ABCDEFGH1234",
        "sk-abcdefgh 1234",
        "%73k-abcdefgh123%",
        "736B2D61626364656667683132333",
        "tasks and desks and risks",
        "%%%%%%%%",
        "\\\\\\\\",
        "\n\n\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        scrub_is(secrets, waldo__str(texts[i]), texts[i]);
    }
    scrub_is(secrets, WALDO__S("736b2d6162636465666768\n\n\n31323334"),
             "736b2d6162636465666768\n\n\n31323334");
    waldo__secrets_free(secrets);
}

static void finds_values_that_look_like_escapes(void **state)
{
    static const char *const values[] = { "%41%42%43", "100%2Fsafe", "a\\nb\\\"c\\\\d", "%%%%%%%%",
                                          "\\\\\\\\\\\\\\\\" };

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        waldo__secrets *secrets = make_secrets(waldo__str(values[i]));
        waldo__buf text = WALDO__BUF_INIT(200);

        waldo__buf_printf(&text, "<%s>", values[i]);
        scrub_is(secrets, waldo__buf_str(&text), "<[KEY]>");
        waldo__buf_clear(&text);
        add_percent(&text, values[i], "-._~", "X");
        scrub_is(secrets, waldo__buf_str(&text), "[KEY]");
        waldo__buf_clear(&text);
        add_json(&text, values[i], 0);
        scrub_is(secrets, waldo__buf_str(&text), "[KEY]");
        waldo__buf_free(&text);
        waldo__secrets_free(secrets);
    }
}

static void takes_the_longest_of_two_values(void **state)
{
    waldo__secrets *secrets = make_secrets(WALDO__S("prefix-1234"));
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__scrubber scrubber;

    (void)state;
    waldo__secrets_put(secrets, "LONG", WALDO__S("prefix-1234-and-more"), 0);
    waldo__scrub(secrets, WALDO__S("prefix-1234-and-more prefix-1234-and-mor"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "[LONG] [KEY]-and-mor");
    waldo__buf_clear(&out);
    waldo__scrubber_init(&scrubber, secrets);
    waldo__scrubber_feed(&scrubber, WALDO__S("prefix-1234"), &out);
    waldo__scrubber_feed(&scrubber, WALDO__S("-and-more prefix-1234"), &out);
    waldo__scrubber_feed(&scrubber, WALDO__S("-and-mor"), &out);
    waldo__scrubber_finish(&scrubber, &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "[LONG] [KEY]-and-mor");
    waldo__buf_free(&out);
    waldo__secrets_free(secrets);
}

static void holds_back_no_more_than_it_must(void **state)
{
    waldo__secrets *secrets = make_secrets(WALDO__S("sk-abcdefgh1234"));
    waldo__buf out = WALDO__BUF_INIT(1000);
    waldo__scrubber scrubber;

    (void)state;
    waldo__scrubber_init(&scrubber, secrets);
    waldo__scrubber_feed(&scrubber, WALDO__S("A line of ordinary text.\n"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "A line of ordinary text.\n");
    waldo__scrubber_feed(&scrubber, WALDO__S("it is sk-abcdefgh12"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr, "A line of ordinary text.\nit is ");
    waldo__scrubber_feed(&scrubber, WALDO__S("x!"), &out);
    assert_string_equal(waldo__buf_str(&out).ptr,
                        "A line of ordinary text.\nit is sk-abcdefgh12x!");
    waldo__scrubber_free(&scrubber);
    waldo__buf_free(&out);
    waldo__secrets_free(secrets);
}

static void passes_text_through_without_secrets(void **state)
{
    waldo__buf out = WALDO__BUF_INIT(100);
    waldo__scrubber scrubber;

    (void)state;
    assert_int_equal(waldo__secrets_found(NULL, WALDO__S("text")), 0);
    waldo__scrub(NULL, WALDO__S("a\0b"), &out);
    waldo__scrubber_init(&scrubber, NULL);
    waldo__scrubber_feed(&scrubber, WALDO__S("c"), &out);
    waldo__scrubber_finish(&scrubber, &out);
    assert_int_equal(out.len, 4);
    assert_memory_equal(out.ptr, "a\0bc", 4);
    waldo__buf_free(&out);
}

/* Pieces of forms in random order, split at random: the stream gives what the whole gives. */
static void stream_equals_whole(void **state)
{
    waldo__secrets *secrets = make_secrets(waldo__strn(key, KEY_LEN));
    unsigned seed = 12345;

    (void)state;
    waldo__secrets_put(secrets, "SHORT", WALDO__S("sk-T3st/"), 0);
    for (int round = 0; round < 3000; round++) {
        waldo__buf text = WALDO__BUF_INIT(1 << 16), whole = WALDO__BUF_INIT(1 << 16),
                   stream = WALDO__BUF_INIT(1 << 16);
        waldo__scrubber scrubber;
        size_t at = 0;

        for (int piece = 0; piece < 4; piece++) {
            waldo__buf form = WALDO__BUF_INIT(4096);
            size_t from, to;

            add_form(&form, (size_t)rand_r(&seed) % FORMS);
            from = rand_r(&seed) % 3 == 0 ? (size_t)rand_r(&seed) % form.len : 0;
            to = rand_r(&seed) % 2 == 0 ? (size_t)rand_r(&seed) % form.len : form.len;
            waldo__buf_add(&text, form.ptr + from, to > from ? to - from : 0);
            waldo__buf_free(&form);
        }
        waldo__scrub(secrets, waldo__buf_str(&text), &whole);
        waldo__scrubber_init(&scrubber, secrets);
        while (at < text.len) {
            size_t len = 1 + (size_t)rand_r(&seed) % 12;

            len = len < text.len - at ? len : text.len - at;
            waldo__scrubber_feed(&scrubber, waldo__strn(text.ptr + at, len), &stream);
            at += len;
        }
        waldo__scrubber_finish(&scrubber, &stream);
        assert_string_equal(waldo__buf_str(&stream).ptr, waldo__buf_str(&whole).ptr);
        waldo__scrubber_free(&scrubber);
        waldo__buf_free(&text);
        waldo__buf_free(&whole);
        waldo__buf_free(&stream);
    }
    waldo__secrets_free(secrets);
}

static void reports_a_full_buffer(void **state)
{
    waldo__secrets *secrets = make_secrets(WALDO__S("sk-abcdefgh1234"));
    waldo__buf out = WALDO__BUF_INIT(6);

    (void)state;
    assert_int_equal(waldo__scrub(secrets, WALDO__S("ab sk-abcdefgh1234"), &out), WALDO_ETOOBIG);
    waldo__buf_free(&out);
    waldo__secrets_free(secrets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_every_form_at_every_place),
        cmocka_unit_test(finds_every_form_at_every_split),
        cmocka_unit_test(finds_every_form_byte_by_byte),
        cmocka_unit_test(finds_a_value_inside_of_base64),
        cmocka_unit_test(leaves_other_text_alone),
        cmocka_unit_test(finds_values_that_look_like_escapes),
        cmocka_unit_test(takes_the_longest_of_two_values),
        cmocka_unit_test(holds_back_no_more_than_it_must),
        cmocka_unit_test(passes_text_through_without_secrets),
        cmocka_unit_test(stream_equals_whole),
        cmocka_unit_test(reports_a_full_buffer),
    };

    return !!cmocka_run_group_tests(tests, NULL, NULL);
}
