"""Makes tests/support importable and its fixtures known to every Python test."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))

from standin import chat, e2b, messages, responses  # noqa: E402, F401  (fixtures)
from dockerd import engine  # noqa: E402, F401
from podman import podman, rootless  # noqa: E402, F401
from program import agent, waldo  # noqa: E402, F401
