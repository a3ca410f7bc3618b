"""No request without need: what an operation on a live sandbox asks of the engine beside its stream."""
import pathlib
import subprocess

from test_standin import BUILD, stand_in  # noqa: F401

TOOL = BUILD / "tests" / "docker" / "requests-tool"
TABLE = pathlib.Path(__file__).parents[1] / "contract" / "requests.txt"


def test_operations_ask_what_the_table_says(stand_in):  # noqa: F811
    rows = [line.split()[1:] for line in TABLE.read_text().splitlines() if line.startswith("engine ")]
    process = subprocess.Popen([TOOL, f"docker:image,spares=1,host=unix://{stand_in.path}"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)

    def ask(operation):
        process.stdin.write(operation + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "WALDO_OK\n", operation
        return len(stand_in.asked)

    try:
        ask("command")  # opens the machine
        before = ask("settle")
        assert before > 10  # two machines
        assert len(rows) >= 4
        for operation, wanted in rows:
            after = ask(operation)
            assert after - before == int(wanted), (operation, stand_in.asked[before:])
            before = after
        process.stdin.close()
        assert process.wait(180) == 0
    finally:
        process.kill()
        process.wait()
