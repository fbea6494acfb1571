"""`deerstore bench` measures an empty database, and leaves somebody else's alone."""

from __future__ import annotations

import json

from deerstore.cli import main


def test_it_measures_an_empty_database(storage_url, capsys):
    arguments = [
        "bench",
        "--url",
        storage_url,
        "--only",
        "get_run,append_batch 10",
        "--rounds",
        "5",
    ]
    assert main([*arguments, "--json"]) == 0
    lines = {line["operation"]: line for line in json.loads(capsys.readouterr().out)}
    assert {"runs.get_run", "run_events.append_batch 10"} <= set(lines)
    floor, own = (lines["runs.get_run"]["microseconds"][name] for name in ("floor", "deerstore"))
    assert 0 < floor[1] <= floor[0] <= floor[2]
    assert 0 < own[1] <= own[0] <= own[2]
    # Its own rows are there now.
    assert main(arguments) == 2
    assert "give me an empty database" in capsys.readouterr().err


def test_people_get_a_table(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'bench.db'}"
    assert main(["bench", "--url", url, "--only", "count_users", "--rounds", "5"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["operation", "floor", "deerstore", "times", "the", "floor"]
    assert line.split()[0] == "users.count_users"
