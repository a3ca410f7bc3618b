"""Runs `true` in a container for each line it reads, with docker-py."""
import sys

import docker

container = docker.DockerClient(base_url=f"unix://{sys.argv[1]}").containers.get(sys.argv[2])
for _ in sys.stdin:
    code = container.exec_run(["true"]).exit_code
    sys.stdout.write("ok\n" if code == 0 else f"exit code {code}\n")
    sys.stdout.flush()
