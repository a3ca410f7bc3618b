"""What holds for every test of an engine."""
import pytest

ENGINES = ("engine", "podman", "rootless", "remote")


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """No test leaves a container; one that does fails alone, not with all that come after it."""
    engines = [request.getfixturevalue(name) for name in ENGINES if name in request.fixturenames]
    before = [{each["Id"] for each in engine.containers()} for engine in engines]
    yield
    left = []
    for engine, known in zip(engines, before):
        def more():
            return [each for each in engine.containers() if each["Id"] not in known]  # noqa: B023
        if not engine.wait(lambda: not more()):  # noqa: B023
            left += more()
        for each in more():
            engine.ask("DELETE", f"/v1.41/containers/{each['Id']}?force=1&v=1")
    assert not left
