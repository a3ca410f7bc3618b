"""`waldo doctor` finds what works and what is missing."""


def test_all_is_well(agent, chat):
    chat.queue({"text": "ready"})
    done = agent("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"  ok  chat:{chat.url}#none\n" in done.stdout and "  ok  local:  isolation process" in done.stdout
    assert "backend.local" in done.stdout


def test_a_model_that_refuses(agent, chat):
    chat.queue(*[{"status": 401, "json": {"error": {"message": "wrong key\033[2J"}}}] * 4)
    done = agent("doctor")
    assert done.returncode == 5 and f"  no  chat:{chat.url}#none\n" in done.stdout
    assert "\033" not in done.stdout


def test_without_bubblewrap(agent, chat):
    chat.queue({"text": "ready"})
    done = agent("doctor", env={"PATH": "/nonexistent"})
    assert done.returncode == 5 and "  no  local" in done.stdout and "bubblewrap" in done.stdout


def test_an_unknown_sandbox(waldo):
    done = waldo("doctor", "-s", "walk:")
    assert done.returncode == 2 and done.stdout == "" and "local:" in done.stderr


def test_an_unknown_model(waldo):
    done = waldo("doctor", "-s", "local:", "-m", "walk:")
    assert done.returncode == 5 and "chat:" in done.stdout


def test_each_model_is_asked(agent, chat):
    second, third = f"chat:{chat.url}#second", f"chat:{chat.url}#third"
    chat.queue({"status": 404, "json": {"error": {"message": "unheard of"}}}, {"text": "ready"},
               {"status": 400, "json": {"error": {"message": "maintenance"}}})
    done = agent("doctor", "-m", second, "-m", third)
    assert done.returncode == 5
    _, _, models = done.stdout.partition("\nModel\n")
    rows = models.splitlines()
    assert rows[0] == f"  no  chat:{chat.url}#none" and "unheard of" in rows[1]
    assert rows[2] == f"  ok  {second}" and rows[3] == f"  no  {third}" and "maintenance" in rows[4]
