"""What the tests of facts files share."""

import pytest


@pytest.fixture
def write(tmp_path):
    def made(content, name="my.toml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return made
