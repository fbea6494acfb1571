"""What a user gets: the wheel, installed with one extra into an empty environment."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import deerstore
from tests.packaging.lowest import lowest

ROOT = Path(__file__).resolve().parents[2]

_SCRIPT = """
import asyncio, os, deerstore
from deerstore.repositories import RunCreate, build_run_repository
from langgraph.checkpoint.base import empty_checkpoint

async def main():
    async with deerstore.open(os.environ["URL"]) as persistence:
        async with persistence.transaction() as session:
            await build_run_repository(session).create_run(RunCreate(run_id="r1", thread_id="t1"))
        config = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}
        checkpoint = {**empty_checkpoint(), "channel_values": {"picture": b"\\x00\\xff"}}
        await persistence.checkpointer.aput(config, checkpoint, {}, {})
        await persistence.store.aput(("notes",), "first", {"text": "hello"})
        run = await build_run_repository(persistence.database).get_run("r1")
        saved = await persistence.checkpointer.aget_tuple(config)
        item = await persistence.store.aget(("notes",), "first")
        print(run.status, saved.checkpoint["id"] == checkpoint["id"], item.value["text"])

asyncio.run(main())
"""

_MISSING = """
import asyncio, os, deerstore

async def main():
    async with deerstore.open(os.environ["URL"]):
        pass

try:
    asyncio.run(main())
except deerstore.MissingExtraError as error:
    print(error)
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_carries_every_sql_file(wheel: Path) -> None:
    """Queries, migrations and the type marker are inside; tests and caches are not."""
    carried = set(zipfile.ZipFile(wheel).namelist())
    queries = {str(path.relative_to(ROOT)) for path in (ROOT / "deerstore/sql").rglob("*.sql")}
    migrations = {
        f"deerstore/{path.relative_to(ROOT)}" for path in (ROOT / "migrations").rglob("*.sql")
    }
    assert queries
    assert migrations
    assert queries | migrations | {"deerstore/py.typed"} <= carried
    assert {name.split("/")[0].split("-")[0] for name in carried} == {"deerstore"}
    assert not [name for name in carried if "cache" in name]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_extra_is_enough_for_its_engine(
    wheel: Path, engine: str, storage_url: str, tmp_path: Path
) -> None:
    """`pip install deerstore[engine]`, an empty folder, a short script: it works."""
    python = _environment(tmp_path, f"{wheel}[{engine}]")
    assert _run(python, tmp_path, _SCRIPT, storage_url) == "pending True hello"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_missing_extra_is_named(wheel: Path, tmp_path: Path) -> None:
    """Without its extra an engine cannot be opened, and the error says which one to install."""
    python = _environment(tmp_path, str(wheel))
    urls = {
        "sqlite": "sqlite:///x.db",
        "postgres": "postgresql://u@localhost/x",
        "mysql": "mysql://u@localhost/x",
    }
    for extra, url in urls.items():
        assert f"deerstore[{extra}]" in _run(python, tmp_path, _MISSING, url)


def test_every_dependency_has_both_ends() -> None:
    """Each range has a lower end that can be tested and an upper end that bounds surprises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {*project["dependencies"], *(line for name in extras for line in extras[name])}
    ranges = {line for line in named if not line.startswith("deerstore")}
    assert len(lowest()) == len(ranges)
    assert [line for line in ranges if ",<" not in line] == []
    assert set(extras) == {"sqlite", "postgres", "mysql", "gateway", "cli", "all"}


def test_the_version_is_one() -> None:
    """The module and the metadata tell the same version."""
    from importlib.metadata import version

    assert deerstore.__version__ == version("deerstore")


def _environment(folder: Path, requirement: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True
    )
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", requirement],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return python


def _run(python: Path, folder: Path, script: str, url: str) -> str:
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    done = subprocess.run(
        [str(python), "-W", "error", "-c", script],
        cwd=empty,
        env={"PATH": "/usr/bin:/bin", "URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
