"""Ten thousand commands in one container leave nothing on either side."""
import os

import many
from dockerd import IMAGE


def test_ten_thousand_commands(engine):
    def hand(tool):
        """The container's main process, as the host sees it."""
        containers = [engine.ask("GET", f"/v1.41/containers/{each['Id']}/json")[1] for each in engine.containers()
                      if each["Labels"]["dev.waldo.pid"] == str(tool)]
        assert len(containers) == 1
        return [containers[0]["State"]["Pid"]]

    many.check(f"docker:{IMAGE}", hand, {**os.environ, "DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()
