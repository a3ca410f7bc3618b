"""Waiting for what must come, however slow the machine is."""
import time

PATIENCE = 120  # seconds until a hang is one


def until(condition, seconds=PATIENCE):
    """Whether it came true in time."""
    late = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > late:
            return False
        time.sleep(0.01)
    return True
