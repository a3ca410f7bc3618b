/* apply_patch: the worked cases of its form, and what goes wrong around them, over any sandbox. */
#include "fixture.h"

#define BEGIN               "*** Begin Patch\n"
#define END                 "*** End Patch\n"
#define UPDATE(path, hunks) BEGIN "*** Update File: " path "\n" hunks END

typedef struct named {
    const char *path;
    const char *text; /* NULL: there is no such file */
} named;

/* What a patch makes of files. */
typedef struct patch_case {
    const char *name;
    named before[3];
    const char *patch;
    int fails;
    named after[3]; /* empty: as before */
} patch_case;

static const patch_case cases[] = {
    { "01 create",
      { { "notes/a.txt", NULL } },
      BEGIN "*** Add File: notes/a.txt\n+one\n+two\n" END,
      0,
      { { "notes/a.txt", "one\ntwo\n" } } },
    { "02 plain update",
      { { "f.txt", "alpha\nbeta\ngamma\n" } },
      UPDATE("f.txt", "@@\n alpha\n-beta\n+BETA\n gamma\n"),
      0,
      { { "f.txt", "alpha\nBETA\ngamma\n" } } },
    { "03 one anchor",
      { { "k.py", "class A:\n    def run(self):\n        x = 1\n\nclass B:\n    def run(self):\n"
                  "        x = 1\n" } },
      UPDATE("k.py", "@@ class B:\n-        x = 1\n+        x = 2\n"),
      0,
      { { "k.py", "class A:\n    def run(self):\n        x = 1\n\nclass B:\n    def run(self):\n"
                  "        x = 2\n" } } },
    { "04 stacked anchors",
      { { "k.py",
          "class A:\n    def run(self):\n        x = 1\n    def stop(self):\n        x = 1\n\n"
          "class B:\n    def run(self):\n        x = 1\n    def stop(self):\n        x = 1\n" } },
      UPDATE("k.py", "@@ class B:\n@@     def stop(self):\n-        x = 1\n+        x = 9\n"),
      0,
      { { "k.py",
          "class A:\n    def run(self):\n        x = 1\n    def stop(self):\n        x = 1\n\n"
          "class B:\n    def run(self):\n        x = 1\n    def stop(self):\n        x = 9\n" } } },
    { "05 end of file",
      { { "t.txt", "b\nmid\nb\n" } },
      UPDATE("t.txt", "@@\n-b\n+c\n*** End of File\n"),
      0,
      { { "t.txt", "b\nmid\nc\n" } } },
    { "05a end of file, behind empty lines",
      { { "t.txt", "b\nmid\nb\n\n \n" } },
      UPDATE("t.txt", "@@\n-b\n+c\n*** End of File\n"),
      0,
      { { "t.txt", "b\nmid\nc\n\n \n" } } },
    { "05b not the end of file",
      { { "t.txt", "b\nmid\n" } },
      UPDATE("t.txt", "@@\n-b\n+c\n*** End of File\n"),
      0,
      { { "t.txt", "c\nmid\n" } } },
    { "06 trailing blanks in the file",
      { { "w.txt", "foo   \nbar\t\nend\n" } },
      UPDATE("w.txt", "@@\n foo\n-bar\n+baz\n"),
      0,
      { { "w.txt", "foo   \nbaz\nend\n" } } },
    { "07 indentation lost by the model",
      { { "ind.c", "    if (x)\n        y();\n" } },
      UPDATE("ind.c", "@@\n if (x)\n-y();\n+z();\n"),
      0,
      { { "ind.c", "    if (x)\nz();\n" } } },
    { "08 Unicode dash",
      { { "u.md", "a \xe2\x80\x93 b\nsay \xe2\x80\x9chi\xe2\x80\x9d\n" } },
      UPDATE("u.md", "@@\n-a - b\n+a + b\n"),
      0,
      { { "u.md", "a + b\nsay \xe2\x80\x9chi\xe2\x80\x9d\n" } } },
    { "09 CRLF file, LF patch",
      { { "win.txt", "one\r\ntwo\r\nthree\r\n" } },
      UPDATE("win.txt", "@@\n one\n-two\n+TWO\n three\n"),
      0,
      { { "win.txt", "one\r\nTWO\r\nthree\r\n" } } },
    { "10 mixed endings",
      { { "mix.txt", "one\r\ntwo\nthree\r\n" } },
      UPDATE("mix.txt", "@@\n-two\n+TWO\n"),
      0,
      { { "mix.txt", "one\r\nTWO\r\nthree\r\n" } } },
    { "11 no final newline",
      { { "nonl.txt", "a\nb" } },
      UPDATE("nonl.txt", "@@\n a\n-b\n+c\n"),
      0,
      { { "nonl.txt", "a\nc\n" } } },
    { "11a no final newline, kept",
      { { "nonl.txt", "a\nb" } },
      UPDATE("nonl.txt", "@@\n-a\n+c\n b\n"),
      0,
      { { "nonl.txt", "c\nb" } } },
    { "11b no final newline, moved inward",
      { { "nonl.txt", "a\r\nb" } },
      UPDATE("nonl.txt", "@@\n b\n+c\n"),
      0,
      { { "nonl.txt", "a\r\nb\r\nc\r\n" } } },
    { "12 insertion under an anchor",
      { { "ins.txt", "def f():\n    pass\ndef g():\n    pass\n" } },
      UPDATE("ins.txt", "@@ def f():\n+    log()\n"),
      0,
      { { "ins.txt", "def f():\n    log()\n    pass\ndef g():\n    pass\n" } } },
    { "13 move and change",
      { { "old.py", "print('hi')\n" }, { "pkg/new.py", NULL } },
      BEGIN
      "*** Update File: old.py\n*** Move to: pkg/new.py\n@@\n-print('hi')\n+print('bye')\n" END,
      0,
      { { "old.py", NULL }, { "pkg/new.py", "print('bye')\n" } } },
    { "13a move alone",
      { { "old.py", "print('hi')" }, { "there.py", "x\n" } },
      BEGIN "*** Update File: old.py\n*** Move to: there.py\n" END,
      0,
      { { "old.py", NULL }, { "there.py", "print('hi')" } } },
    { "14 several sections",
      { { "modify.txt", "line1\nline2\n" }, { "delete.txt", "bye\n" }, { "nested/new.txt", NULL } },
      BEGIN "*** Add File: nested/new.txt\n+created\n*** Delete File: delete.txt\n"
            "*** Update File: modify.txt\n@@\n-line2\n+changed\n" END,
      0,
      { { "modify.txt", "line1\nchanged\n" },
        { "delete.txt", NULL },
        { "nested/new.txt", "created\n" } } },
    { "15 not found",
      { { "f.txt", "alpha\n" } },
      UPDATE("f.txt", "@@\n-omega\n+x\n"),
      1,
      { { 0 } } },
    { "15a closest place",
      { { "app.py", "def a():\n    pass\n\ndef greet(name):\n    print('Hi')\n" } },
      UPDATE("app.py",
             "@@\n-def a():\n+def b():\n@@\n def greet(name):\n-    print(\"Hi\")\n+    x\n"),
      1,
      { { 0 } } },
    { "16 line without a prefix",
      { { "f.txt", "alpha\n" } },
      UPDATE("f.txt", "@@\nalpha\n+x\n"),
      1,
      { { 0 } } },
    { "17 hunks out of order",
      { { "f.txt", "a\nb\nc\nd\ne\n" } },
      UPDATE("f.txt", "@@\n-d\n+D\n@@\n-b\n+B\n"),
      1,
      { { 0 } } },
    { "18 second file fails",
      { { "one.txt", "1\n" }, { "two.txt", "2\n" } },
      BEGIN
      "*** Update File: one.txt\n@@\n-1\n+ONE\n*** Update File: two.txt\n@@\n-missing\n+x\n" END,
      1,
      { { 0 } } },
    { "19 here-document and padded markers",
      { { "f.txt", "a\n" } },
      "<<'EOF'\n  *** Begin Patch  \n*** Update File: f.txt\n@@\n-a\n+b\n*** End Patch\nEOF\n",
      0,
      { { "f.txt", "b\n" } } },
    { "19a Markdown fence",
      { { "f.txt", "a\n" } },
      "\n```patch\n" UPDATE("f.txt", "@@\n-a\n+b\n") "```\n",
      0,
      { { "f.txt", "b\n" } } },
    { "20 line separator is content",
      { { "x.txt", "A\xe2\x80\xa8"
                   "B\nC\n" } },
      UPDATE("x.txt", "@@\n-A\xe2\x80\xa8"
                      "B\n+Z\n"),
      0,
      { { "x.txt", "Z\nC\n" } } },
    { "20a form feed is content",
      { { "x.txt", "A\fB\nC\n" } },
      UPDATE("x.txt", "@@\n-A\fB\n+Z\n"),
      0,
      { { "x.txt", "Z\nC\n" } } },
    { "21 append with the end marker",
      { { "f.txt", "a\nb\n" } },
      UPDATE("f.txt", "@@\n+z\n*** End of File\n"),
      0,
      { { "f.txt", "a\nb\nz\n" } } },
    { "21a append without it",
      { { "f.txt", "a\nb\n" } },
      UPDATE("f.txt", "@@\n+z\n"),
      0,
      { { "f.txt", "a\nb\nz\n" } } },
    { "22 byte order mark",
      { { "f.txt", "\xef\xbb\xbf"
                   "a\nb\n" } },
      UPDATE("f.txt", "@@\n-a\n+A\n"),
      0,
      { { "f.txt", "\xef\xbb\xbf"
                   "A\nb\n" } } },
    { "23 move onto itself",
      { { "f.txt", "a\n" } },
      BEGIN "*** Update File: f.txt\n*** Move to: ./x/../f.txt\n@@\n-a\n+b\n" END,
      0,
      { { "f.txt", "b\n" } } },
    { "24 blank context line without its space",
      { { "f.txt", "a\n\nb\n" } },
      UPDATE("f.txt", "@@\n a\n\n-b\n+B\n"),
      0,
      { { "f.txt", "a\n\nB\n" } } },
    { "24a blank context line in front of all others",
      { { "f.txt", "b\n\nb\n" } },
      UPDATE("f.txt", " \n-b\n+B\n"),
      0,
      { { "f.txt", "b\n\nB\n" } } },
    { "25 missing anchor, unique text",
      { { "f.txt", "alpha\n" } },
      UPDATE("f.txt", "@@ nosuch\n-alpha\n+x\n"),
      0,
      { { "f.txt", "x\n" } } },
    { "25a missing anchor, text twice",
      { { "f.txt", "alpha\nalpha\n" } },
      UPDATE("f.txt", "@@ nosuch\n-alpha\n+x\n"),
      1,
      { { 0 } } },
    { "25b missing anchor, nothing else",
      { { "f.txt", "alpha\n" } },
      UPDATE("f.txt", "@@ nosuch\n+x\n"),
      1,
      { { 0 } } },
    { "26 whole patch in CRLF",
      { { "f.txt", "a\nb\n" } },
      "*** Begin Patch\r\n*** Update File: f.txt\r\n@@\r\n-b\r\n+c\r\n*** End Patch\r\n",
      0,
      { { "f.txt", "a\nc\n" } } },
    { "27 ambiguous text",
      { { "f.txt", "x\nx\n" } },
      UPDATE("f.txt", "@@\n-x\n+y\n"),
      0,
      { { "f.txt", "y\nx\n" } } },
    { "28 escape",
      { { "a.txt", "a\n" } },
      BEGIN "*** Update File: a.txt\n@@\n-a\n+b\n*** Add File: ../../etc/cron.d/x\n+x\n" END,
      1,
      { { 0 } } },
    { "28a escape by an absolute path",
      { { "a.txt", "a\n" } },
      BEGIN "*** Delete File: /etc/passwd\n" END,
      1,
      { { 0 } } },
    { "28b absolute path inside",
      { { "a.txt", "a\n" } },
      BEGIN "*** Update File: /workspace/./a.txt\n-a\n+b\n" END,
      0,
      { { "a.txt", "b\n" } } },
    { "29 retry after a lost reply",
      { { "f.txt", "alpha\nBETA\ngamma\n" } },
      UPDATE("f.txt", "@@\n alpha\n-beta\n+BETA\n gamma\n"),
      1,
      { { 0 } } },
    { "30 no section", { { "f.txt", "a\n" } }, BEGIN END, 1, { { 0 } } },
    { "30a header alone", { { "f.txt", "a\n" } }, UPDATE("f.txt", ""), 1, { { 0 } } },
    { "30b unknown header",
      { { "f.txt", "a\n" } },
      BEGIN "*** Rename File: f.txt\n" END,
      1,
      { { 0 } } },

    /* ---- beside the worked cases ---- */
    { "no begin",
      { { "f.txt", "a\n" } },
      "*** Update File: f.txt\n@@\n-a\n+b\n" END,
      1,
      { { 0 } } },
    { "cut", { { "f.txt", "a\n" } }, BEGIN "*** Update File: f.txt\n@@\n-a\n+b\n", 1, { { 0 } } },
    { "two patches",
      { { "f.txt", "a\n" } },
      UPDATE("f.txt", "@@\n-a\n+b\n") UPDATE("f.txt", "@@\n-b\n+c\n"),
      1,
      { { 0 } } },
    { "empty path", { { "f.txt", "a\n" } }, BEGIN "*** Delete File:  \n" END, 1, { { 0 } } },
    { "unknown marker in a hunk",
      { { "f.txt", "a\n" } },
      UPDATE("f.txt", "@@\n-a\n*** Frobnicate\n+b\n"),
      1,
      { { 0 } } },
    { "later hunk without its @@",
      { { "f.txt", "a\nb\n" } },
      UPDATE("f.txt", "@@\n-b\n+c\n*** End of File\n-a\n+A\n"),
      1,
      { { 0 } } },
    { "anchor alone", { { "f.txt", "a\n" } }, UPDATE("f.txt", "@@ a\n"), 1, { { 0 } } },
    { "added line without its plus",
      { { "f.txt", NULL } },
      BEGIN "*** Add File: f.txt\n+a\n\nb\n" END,
      1,
      { { 0 } } },
    { "add an empty file",
      { { "empty", NULL } },
      BEGIN "*** Add File: empty\n" END,
      0,
      { { "empty", "" } } },
    { "add over a file",
      { { "f.txt", "a\n" } },
      BEGIN "*** Add File: f.txt\n+b\n" END,
      0,
      { { "f.txt", "b\n" } } },
    { "blank lines between sections",
      { { "f.txt", "a\n" }, { "g.txt", "a\n" }, { "h.txt", NULL } },
      BEGIN "\n*** Add File: h.txt\n+h\n\n*** Update File: f.txt\n\n@@\n-a\n+b\n\n"
            "*** Delete File: g.txt\n\n" END,
      0,
      { { "f.txt", "b\n" }, { "g.txt", NULL }, { "h.txt", "h\n" } } },
    { "one file twice",
      { { "f.txt", "a\nb\n" } },
      BEGIN "*** Update File: f.txt\n@@\n-a\n+A\n*** Update File: f.txt\n@@\n A\n-b\n+B\n" END,
      0,
      { { "f.txt", "A\nB\n" } } },
    { "added and then changed",
      { { "n.txt", NULL } },
      BEGIN "*** Add File: n.txt\n+a\n*** Update File: n.txt\n@@\n-a\n+b\n" END,
      0,
      { { "n.txt", "b\n" } } },
    { "deleted and then changed",
      { { "f.txt", "a\n" } },
      BEGIN "*** Delete File: f.txt\n*** Update File: f.txt\n@@\n-a\n+b\n" END,
      1,
      { { 0 } } },
    { "every line removed",
      { { "f.txt", "a\nb\n" } },
      UPDATE("f.txt", "@@\n-a\n-b\n"),
      0,
      { { "f.txt", "" } } },
    { "missing files",
      { { "gone", NULL } },
      BEGIN "*** Delete File: gone\n*** Update File: gone\n@@\n-a\n+b\n" END,
      1,
      { { 0 } } },
    { "several hunks fail",
      { { "f.txt", "a\n" } },
      UPDATE("f.txt", "@@\n-x\n+X\n@@\n-y\n+Y\n@@\n-z\n+Z\n"),
      1,
      { { 0 } } },
    { "the empty line that is no line",
      { { "f.txt", "a\nb\n" } },
      UPDATE("f.txt", "@@\n a\n-b\n+c\n \n"),
      0,
      { { "f.txt", "a\nc\n" } } },
    { "a removed line that looks like a header",
      { { "f.txt", "*** Delete File: f.txt\n@@\n" } },
      UPDATE("f.txt", "@@\n-*** Delete File: f.txt\n+b\n @@\n"),
      0,
      { { "f.txt", "b\n@@\n" } } },
    { "Latin-1",
      { { "l.txt", "caf\xe9\ntea\n" } },
      UPDATE("l.txt", "@@\n-tea\n+th\xc3\xa9\n"),
      0,
      { { "l.txt", "caf\xe9\nth\xc3\xa9\n" } } },
    { "Latin-1 in a failure",
      { { "l.txt", "tea\ncaf\xe9\n" } },
      UPDATE("l.txt", "@@\n tea\n-coffee\n+x\n"),
      1,
      { { 0 } } },
    { "lone CR is content",
      { { "f.txt", "a\rb\nc\n" } },
      UPDATE("f.txt", "@@\n-a\rb\n+d\n"),
      0,
      { { "f.txt", "d\nc\n" } } },
    { "append first, change later",
      { { "f.txt", "a\nb" } },
      UPDATE("f.txt", "+z\n@@\n-a\n+A\n"),
      0,
      { { "f.txt", "A\nb\nz\n" } } },
    { "unified diff's numbers",
      { { "f.txt", "a\nb\n" } },
      UPDATE("f.txt", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
      0,
      { { "f.txt", "a\nc\n" } } },

    /* ---- as JSON operations ---- */
    { "JSON operations",
      { { "f.txt", "a\n" }, { "g.txt", "g\n" }, { "h.txt", NULL } },
      "{\"operations\":[{\"type\":\"create_file\",\"path\":\"h.txt\",\"diff\":\"+one\\n+two\\n\"},"
      "{\"type\":\"update_file\",\"path\":\"f.txt\",\"diff\":\"@@\\n-a\\n+b\\n\"},"
      "{\"type\":\"delete_file\",\"path\":\"g.txt\"}]}",
      0,
      { { "f.txt", "b\n" }, { "g.txt", NULL }, { "h.txt", "one\ntwo\n" } } },
    { "JSON list with a move",
      { { "f.txt", "a\n" }, { "m.txt", NULL } },
      "[{\"type\":\"update_file\",\"path\":\"f.txt\",\"move_to\":\"m.txt\"}]",
      0,
      { { "f.txt", NULL }, { "m.txt", "a\n" } } },
    { "JSON of an unknown type",
      { { "f.txt", "a\n" } },
      "{\"operation\":{\"type\":\"touch_file\",\"path\":\"f.txt\"}}",
      1,
      { { 0 } } },
    { "JSON with a whole patch as its diff",
      { { "f.txt", "a\n" } },
      "{\"type\":\"update_file\",\"path\":\"f.txt\",\"diff\":\"*** Begin Patch\\n\"}",
      1,
      { { 0 } } },
    { "JSON without a diff",
      { { "f.txt", "a\n" } },
      "{\"type\":\"update_file\",\"path\":\"f.txt\"}",
      1,
      { { 0 } } },
};

static waldo_str args_of(waldo__buf *out, const char *name, const char *patch)
{
    waldo__json_writer jw;

    waldo__buf_clear(out);
    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_str(&jw, name, waldo__str(patch));
    waldo__jw_end(&jw, '}');
    return waldo__buf_str(out);
}

static void took_info(void *userdata, waldo_status status, const waldo_file_info *infos,
                      size_t count, const waldo_error *error)
{
    int *ret = userdata;

    (void)infos;
    (void)count;
    (void)error;
    *ret = status == WALDO_OK ? 1 : status == WALDO_ENOTFOUND ? 0 : -1;
}

static int exists(fixture *f, const char *path)
{
    int answer = -2;

    waldo__sandbox_stat(f->sandbox, path, took_info, &answer);
    while (answer == -2) {
        assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
    }
    assert_true(answer >= 0);
    return answer;
}

static void removed(void *userdata, waldo_status status, const waldo_error *error)
{
    (void)error;
    *(int *)userdata = status == WALDO_OK ? 1 : -1;
}

static void take_away(fixture *f, const char *path)
{
    int answer = 0;

    if (!exists(f, path)) {
        return;
    }
    waldo__sandbox_remove(f->sandbox, path, 0, removed, &answer);
    while (answer == 0) {
        assert_int_equal(waldo_runtime_step(f->rt, 60000), WALDO_OK);
    }
    assert_int_equal(answer, 1);
}

static void check_files(fixture *f, const char *name, const named *files)
{
    for (size_t i = 0; i < 3 && files[i].path != NULL; i++) {
        char *bytes;
        size_t len;

        if (files[i].text == NULL) {
            if (exists(f, files[i].path)) {
                fail_msg("%s: %s is there", name, files[i].path);
            }
            continue;
        }
        bytes = get(f, files[i].path, &len);
        if (len != strlen(files[i].text) || memcmp(bytes, files[i].text, len) != 0) {
            fail_msg("%s: %s is %.*s", name, files[i].path, (int)len, bytes);
        }
        waldo__free(bytes);
    }
}

static void run_case(fixture *f, const patch_case *c)
{
    waldo__buf args = WALDO__BUF_INIT(64 * 1024);
    outcome out = { .count = 0 };
    waldo_tool_call *call;

    for (size_t i = 0; i < 3 && c->before[i].path != NULL; i++) {
        if (c->before[i].text != NULL) {
            put(f, c->before[i].path, waldo__str(c->before[i].text));
        } else {
            take_away(f, c->before[i].path);
        }
    }
    call = start(f, "apply_patch", args_of(&args, "patch", c->patch).ptr, &out);
    finish(f, &out);
    waldo__tool_call_release(call);
    waldo__buf_printf(&f->transcript, "### %s\n%s\n%s%s\n", c->name, c->patch,
                      out.end == WALDO__CALL_FAIL ? "ERROR: " : "", out.text);
    if (out.end != (c->fails ? WALDO__CALL_FAIL : WALDO__CALL_REPLY)) {
        fail_msg("%s: %s", c->name, out.text);
    }
    check_files(f, c->name, c->after[0].path != NULL ? c->after : c->before);
    outcome_free(&out);
    waldo__buf_free(&args);
}

static void test_cases(void **state)
{
    fixture *f = *state;

    for (size_t i = 0; i < WALDO__COUNT(cases); i++) {
        run_case(f, &cases[i]);
    }
    golden_check(f, "apply_patch.results");
}

/* The names that models give the parameter, and operations as the arguments themselves. */
static void test_arguments(void **state)
{
    fixture *f = *state;
    waldo__buf args = WALDO__BUF_INIT(64 * 1024);

    put(f, "f", WALDO__S("a\n"));
    reply_of(f, "apply_patch", args_of(&args, "input", UPDATE("f", "-a\n+b\n")).ptr);
    reply_of(f, "apply_patch", args_of(&args, "diff", UPDATE("f", "-b\n+c\n")).ptr);
    reply_of(f, "apply_patch",
             "{\"type\":\"update_file\",\"path\":\"f\",\"diff\":\"@@\\n-c\\n+d\\n\"}");
    reply_of(f, "apply_patch",
             "{\"operation\":{\"type\":\"update_file\",\"path\":\"f\","
             "\"diff\":\"-d\\n+e\\n\"}}");
    check_files(f, "arguments", (named[3]){ { "f", "e\n" } });
    assert_contains(failure_of(f, "apply_patch", "{}"), "the first line of a patch must be");
    assert_contains(failure_of(f, "apply_patch", "{\"patch\":7}"), "nothing was changed");
    assert_contains(failure_of(f, "apply_patch", "{\"patch\":\"{\\\"a\\\":\"}"), "nothing was");
    waldo__buf_free(&args);
}

static const char *patched(fixture *f, int fails, const char *patch)
{
    static waldo__buf args = WALDO__BUF_INIT(64 * 1024);

    args_of(&args, "patch", patch);
    return fails ? failure_of(f, "apply_patch", args.ptr) : reply_of(f, "apply_patch", args.ptr);
}

static void test_binary_and_large(void **state)
{
    fixture *f = *state;
    char *large = malloc(17 * 1024 * 1024);
    waldo__buf many = WALDO__BUF_INIT(4 * 1024 * 1024);

    put(f, "binary", WALDO__S("a\n\0b\n"));
    assert_contains(patched(f, 1, UPDATE("binary", "-a\n+b\n")), "binary is not a text file");
    patched(f, 0, BEGIN "*** Update File: binary\n*** Move to: other\n" END);
    assert_int_equal(exists(f, "binary"), 0);
    memset(large, 'x', 17 * 1024 * 1024);
    put(f, "large", waldo__strn(large, 17 * 1024 * 1024));
    assert_contains(patched(f, 1, UPDATE("large", "-a\n+b\n")), "large is larger than 16 MiB");
    memset(large, '\n', 1000 * 1000 + 1);
    put(f, "lines", waldo__strn(large, 1000 * 1000 + 1));
    assert_contains(patched(f, 1, UPDATE("lines", "-a\n+b\n")), "more than a million lines");
    /* Every place matches all but the last line: the work is bounded, and said to be. */
    memset(large, '\n', 900 * 1000);
    put(f, "lines", waldo__strn(large, 900 * 1000));
    waldo__buf_puts(&many, BEGIN "*** Update File: lines\n@@\n");
    for (int i = 0; i < 10000; i++) {
        waldo__buf_puts(&many, " \n");
    }
    waldo__buf_puts(&many, "-end\n" END);
    {
        waldo__buf args = WALDO__BUF_INIT(4 * 1024 * 1024);

        args_of(&args, "patch", many.ptr);
        assert_contains(failure_of(f, "apply_patch", args.ptr), "it takes too long");
        waldo__buf_free(&args);
    }
    waldo__buf_free(&many);
    free(large);
}

/* What a patch changes keeps its permissions, wherever it goes. */
static void test_modes(void **state)
{
    fixture *f = *state;

    if (!is_local()) {
        skip();
    }
    shell(f, "echo a >run; chmod 755 run");
    patched(f, 0, UPDATE("run", "-a\n+b\n"));
    shell(f, "test -x run");
    patched(f, 0, BEGIN "*** Update File: run\n*** Move to: bin/run\n-b\n+c\n" END);
    shell(f, "test -x bin/run && test ! -e run && grep -q c bin/run");
}

static void test_links_and_folders(void **state)
{
    fixture *f = *state;

    if (!is_local()) {
        skip();
    }
    shell(f, "mkdir folder inside; echo a >file; ln -s /etc out; ln -s file link; ln -s inside in");
    assert_contains(patched(f, 1, UPDATE("link", "-a\n+b\n")), "link is a link: change the file");
    assert_contains(patched(f, 1, BEGIN "*** Add File: link\n+b\n" END), "link is a link");
    assert_contains(patched(f, 1, BEGIN "*** Add File: folder\n+b\n" END), "folder is a folder");
    assert_contains(patched(f, 1, BEGIN "*** Delete File: folder\n" END), "folder is a folder");
    assert_contains(patched(f, 1, BEGIN "*** Update File: file\n*** Move to: folder\n" END),
                    "folder is a folder");
    assert_contains(
        patched(f, 1, BEGIN "*** Update File: file\n-a\n+b\n*** Add File: file/x\n" END),
        "nothing was changed");
    assert_contains(patched(f, 1, BEGIN "*** Update File: file\n-a\n+b\n*** Add File: out/x\n" END),
                    "out/x: ");
    assert_contains(patched(f, 1, UPDATE("out/hosts", "-a\n+b\n")), "leaves the allowed directory");
    patched(f, 0, BEGIN "*** Add File: in/side\n+b\n" END);
    shell(f, "test \"$(cat file)\" = a && test -d folder && test -L link && test -f inside/side");
    patched(f, 0, BEGIN "*** Delete File: link\n" END);
    shell(f, "test ! -L link && test -f file");
}

/* A write that fails after others: what was written is said. */
static void test_fails_between(void **state)
{
    fixture *f = *state;
    const char *text;

    if (!is_local()) {
        skip();
    }
    shell(f, "echo a >one; mkdir shut; echo a >shut/two; echo a >three; chmod 555 shut");
    text = patched(f, 1,
                   BEGIN "*** Update File: one\n-a\n+b\n*** Update File: shut/two\n-a\n+b\n"
                         "*** Delete File: three\n" END);
    shell(f, "chmod 755 shut; test \"$(cat one shut/two three | tr -d '\\n')\" = baa");
    assert_contains(text, "apply_patch failed in between: a part of the patch was applied.\n"
                          "shut/two could not be written: ");
    assert_contains(text, "written: one\nas before: shut/two\nas before: three");
}

/* Calls at the same time take turns, and one that is cancelled while it waits does nothing. */
static void test_turns(void **state)
{
    fixture *f = *state;
    waldo__buf args = WALDO__BUF_INIT(64 * 1024);
    outcome out[3] = { { .count = 0 } };
    waldo_tool_call *calls[3];

    put(f, "f", WALDO__S("a\n"));
    calls[0] =
        start(f, "apply_patch", args_of(&args, "patch", UPDATE("f", "-a\n+b\n")).ptr, &out[0]);
    calls[1] =
        start(f, "apply_patch", args_of(&args, "patch", UPDATE("f", "-b\n+x\n")).ptr, &out[1]);
    calls[2] =
        start(f, "apply_patch", args_of(&args, "patch", UPDATE("f", "-b\n+c\n")).ptr, &out[2]);
    waldo__tool_call_cancel(calls[1]);
    finish(f, &out[0]);
    finish(f, &out[2]);
    assert_int_equal(out[0].end, WALDO__CALL_REPLY);
    assert_int_equal(out[1].count, 0);
    assert_int_equal(out[2].end, WALDO__CALL_REPLY);
    check_files(f, "turns", (named[3]){ { "f", "c\n" } });
    for (size_t i = 0; i < 3; i++) {
        waldo__tool_call_release(calls[i]);
        outcome_free(&out[i]);
    }
    waldo__buf_free(&args);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(test_cases), CASE(test_arguments),         CASE(test_binary_and_large),
        CASE(test_modes), CASE(test_links_and_folders), CASE(test_fails_between),
        CASE(test_turns),
    };
    int wrong = fixture_arguments(argc, argv);

    return wrong ? wrong : !!cmocka_run_group_tests(tests, NULL, NULL);
}
