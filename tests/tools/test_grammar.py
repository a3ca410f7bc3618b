"""The grammar that models are held to says what our own parser of patches says, for what is written as it should be."""
import json
import os
import pathlib
import random
import subprocess

import lark
import pypi
import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", HERE.parent.parent / "build"))
GRAMMAR = (HERE / "golden" / "apply_patch.lark").read_text("utf-8")
# Two ways to read it: one that tries everything, and one that takes no grammar with two meanings.
PARSERS = {kind: lark.Lark(GRAMMAR, parser=kind) for kind in ("earley", "lalr")}
SEED = 20261130


def says(kind, patch):
    try:
        PARSERS[kind].parse(patch)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


def parsed(patches):
    """What our parser says to each: "ok" or an error."""
    done = subprocess.run([BUILD / "tests/tools/parse-patches"], input="".join(f"{p}\0" for p in patches).encode(),
                          capture_output=True, check=True, timeout=120)
    lines = done.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(patches)
    return lines


def patch(*lines):
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def update(path, *lines):
    return patch(f"*** Update File: {path}", *lines)


# Those of the format's worked cases that are about the form of a patch, by their numbers.
GOOD = {
    "1": patch("*** Add File: notes/a.txt", "+one", "+two"),
    "2": update("f.txt", "@@", " alpha", "-beta", "+BETA", " gamma"),
    "3": update("k.py", "@@ class B:", "-        x = 1", "+        x = 2"),
    "4": update("k.py", "@@ class B:", "@@     def stop(self):", "-        x = 1", "+        x = 9"),
    "5": update("t.txt", "@@", "-b", "+c", "*** End of File"),
    "8": update("u.md", "@@", "-a – b", "+a + b"),
    "12": update("ins.txt", "@@ def f():", "+    log()"),
    "13": update("old.py", "*** Move to: pkg/new.py", "@@", "-print('hi')", "+print('bye')"),
    "14": patch("*** Add File: nested/new.txt", "+created", "*** Delete File: delete.txt",
                "*** Update File: modify.txt", "@@", "-line2", "+changed"),
    "17": update("f.txt", "@@", "-d", "+D", "@@", "-b", "+B"),
    "18": patch("*** Update File: one.txt", "@@", "-1", "+ONE", "*** Update File: two.txt", "@@", "-missing", "+x"),
    "20": update("x.txt", "@@", "-A\u2028B", "+Z", "-\f", "+\v\x85"),
    "21": update("f.txt", "@@", "+z", "*** End of File"),
    "23": update("f.txt", "*** Move to: f.txt", "@@", "-a", "+b"),
    "24": update("f.txt", "@@", " a", "", "-b", "+B"),
    "25": update("f.txt", "@@ nosuch", "-alpha", "+x"),
    "28": patch("*** Add File: ../../etc/cron.d/x", "+x"),
    "newline behind the end": patch("*** Delete File: f") + "\n",
    "no anchor at first": update("f.txt", " a", "-b", "@@", "+c"),
    "an anchor that is empty": update("f.txt", "@@ ", "-b"),
    "empty lines and texts": patch("*** Add File: f", "+", "+", "*** Update File: g", "", "", "-", " "),
    "an empty line that is kept, alone": update("f", " ", "*** End of File", "@@", " "),
    "an empty file": patch("*** Add File: f", "*** Add File: g", "+x"),
    "renamed only": update("a", "*** Move to: b"),
    "renamed only, then more": patch("*** Update File: a", "*** Move to: b", "*** Delete File: c"),
    "marks inside of texts": update("f", "@@ *** End Patch", " *** End Patch", "+*** Add File: x", "-@@"),
    "blanks in paths": patch("*** Add File: a b é.txt ", "+x"),
}
BAD = {
    "16": update("f.txt", "@@", "alpha", "+x"),
    "30 no section": patch(),
    "30 header only": update("f.txt"),
    "30 unknown header": patch("*** Rename File: f.txt"),
    "no begin": GOOD["1"].split("\n", 1)[1],
    "no end": GOOD["1"].rsplit("\n", 1)[0],
    "nothing": "",
    "two patches": GOOD["1"] + "\n" + GOOD["1"],
    "text behind the end": GOOD["1"] + "\ndone",
    "a second hunk without an anchor": update("f.txt", "-b", "*** End of File", "+c"),
    "an anchor without lines": update("f.txt", "@@ a"),
    "an anchor with an empty line": update("f.txt", "@@ a", ""),
    "no blank behind the anchor": update("f.txt", "@@a", "-b"),
    "no path": patch("*** Add File: ", "+x"),
    "a blank path": patch("*** Delete File:   "),
    "no path to move to": update("f.txt", "*** Move to: ", "-b"),
    "another line in a new file": patch("*** Add File: f", "+x", " y"),
    "lines of a deleted file": patch("*** Delete File: f", "-x"),
    "end of a file in a new one": patch("*** Add File: f", "+x", "*** End of File"),
}
# What our parser takes all the same, but no model need be taught.
FORGIVEN = {
    "19 here-document": "<<'EOF'\n" + GOOD["2"] + "\nEOF",
    "19 padded marks": "  " + GOOD["2"].replace("Patch\n", "Patch  \n", 1),
    "26 CR LF": GOOD["2"].replace("\n", "\r\n"),
    "fence": "```\n" + GOOD["2"] + "\n```",
    "blank lines between sections": patch("*** Delete File: a", "", "*** Delete File: b"),
    "JSON": '{"type":"delete_file","path":"a"}',
    "blanks in front of a path": patch("*** Delete File:    a"),
}


@pytest.mark.parametrize("kind", PARSERS)
def test_what_is_good(kind):
    assert [name for name, text in GOOD.items() if not says(kind, text)] == []
    assert set(parsed(GOOD.values())) == {"ok"}


@pytest.mark.parametrize("kind", PARSERS)
def test_what_is_bad(kind):
    assert [name for name, text in BAD.items() if says(kind, text)] == []
    assert "ok" not in parsed(BAD.values())


@pytest.mark.parametrize("kind", PARSERS)
def test_what_is_forgiven(kind):
    assert [name for name, text in FORGIVEN.items() if says(kind, text)] == []
    assert set(parsed(FORGIVEN.values())) == {"ok"}


def some_text(chance):
    return "".join(chance.choice("ab *@+-\t\r\\\"é漢\u2028") for _ in range(chance.randrange(6)))


def some_path(chance):
    return chance.choice("ab/.é") + some_text(chance).replace("\r", "")


def some_hunk(chance, is_first):
    anchors = chance.randrange(0 if is_first else 1, 3)
    lines = [chance.choice(["@@", "@@ " + some_text(chance).rstrip("\r")]) for _ in range(anchors)]
    # an empty line that no line of the hunk follows is none of its lines
    lines += [chance.choice(["", " " + some_text(chance)]) for _ in range(chance.randrange(3))]
    lines += [chance.choice(" +-") + some_text(chance)]
    return lines + ["*** End of File"] * chance.randrange(2)


def some_section(chance):
    kind = chance.choice(["Add", "Delete", "Update"])
    lines = [f"*** {kind} File: {some_path(chance)}"]
    if kind == "Add":
        lines += ["+" + some_text(chance) for _ in range(chance.randrange(4))]
    elif kind == "Update":
        is_moved = chance.randrange(2)
        lines += [f"*** Move to: {some_path(chance)}"] * is_moved
        for i in range(chance.randrange(1 - is_moved, 4)):
            lines += some_hunk(chance, i == 0)
    return lines


def some_patch(chance):
    return patch(*(line for _ in range(chance.randrange(1, 4)) for line in some_section(chance)))


def test_whatever_is_written_as_it_should_be():
    chance = random.Random(SEED)
    patches = [some_patch(chance) for _ in range(600)]
    assert [text for text, answer in zip(patches, parsed(patches)) if answer != "ok"] == []
    assert [text for text in patches if not says("lalr", text)] == []
    assert [text for text in patches[:60] if not says("earley", text)] == []


def broken(chance, text):
    """A line taken out, doubled, moved or changed."""
    lines = text.split("\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(5)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(at, lines[other])
    elif how == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 3:
        lines[at] = lines[at][1:]
    else:
        lines[at] = chance.choice(["@@", "*** Update File: x", "*** End of File", "x", "*** End Patch"])
    return "\n".join(lines)


def test_what_the_grammar_takes_the_parser_takes():
    chance = random.Random(SEED)
    patches = [broken(chance, some_patch(chance)) for _ in range(2000)]
    taken = [says("lalr", text) for text in patches]
    wrong = [(text, answer) for text, good, answer in zip(patches, taken, parsed(patches)) if good and answer != "ok"]
    assert wrong == []
    assert 200 < sum(taken) < 1800


@pytest.fixture(scope="module")
def engine():
    return pypi.install(HERE / "requirements.txt")


def test_an_engine_lets_models_say_what_the_grammar_says(engine):
    """One that holds models to grammars, in a dialect of its own, byte by byte."""
    chance = random.Random(SEED)
    texts = [*GOOD.values(), *BAD.values(), *FORGIVEN.values()]
    for _ in range(200):
        texts.append(some_patch(chance))
        texts.append(broken(chance, texts[-1]))
    done = subprocess.run([engine, HERE / "held.py"], input=json.dumps({"grammar": GRAMMAR, "texts": texts}),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(texts)
    assert [text for text, answer in zip(texts, answers) if answer != says("lalr", text)] == []


def test_the_grammar_needs_no_more_than_servers_know():
    """Their dialects of Lark lack lookarounds, lazy repetition, priorities, templates and imports."""
    for part in ("(?", "*?", "+?", "%", "{"):
        assert part not in GRAMMAR
    assert len(GRAMMAR) < 600
