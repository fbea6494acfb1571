"""The states of a run, its figures, and the sums over a thread."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from deerstore.errors import InvalidValueError
from deerstore.repositories import RunCreate, build_run_repository

if TYPE_CHECKING:
    from collections.abc import Callable

    from deerstore.database import Database
    from deerstore.repositories import RunRepository

STATES = ("pending", "running", "success", "error", "timeout", "interrupted")
ALLOWED = (
    {("pending", new) for new in STATES}
    | {("running", new) for new in STATES if new != "pending"}
    | {(state, state) for state in STATES}
    | {("interrupted", "error")}
)

FIGURES: dict[str, Any] = {
    "message_count": 1,
    "first_human_message": "hello",
    "last_ai_message": "hi",
    "total_input_tokens": 2,
    "total_output_tokens": 3,
    "total_tokens": 5,
    "llm_call_count": 4,
    "lead_agent_tokens": 6,
    "subagent_tokens": 7,
    "middleware_tokens": 2**40,
    "token_usage_by_model": {"m": {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5}},
}


@pytest.fixture
def runs(database: Database) -> RunRepository:
    return build_run_repository(database)


def create(run_id: str = "r", thread_id: str = "t", **fields: Any) -> RunCreate:
    return RunCreate(run_id=run_id, thread_id=thread_id, **fields)


async def test_transitions(runs: RunRepository) -> None:
    for old in STATES:
        for new in STATES:
            for how in ("status", "completion", "put"):
                name = f"{old}-{new}-{how}"
                await runs.create_run(create(name, name, status=old))
                if how == "status":
                    changed = await runs.update_run_status(name, new)
                elif how == "completion":
                    changed = await runs.update_run_completion(name, status=new, total_tokens=1)
                else:
                    changed = await runs.put_run(create(name, name, status=new))
                run = await runs.get_run(name)
                assert run is not None
                allowed = (old, new) in ALLOWED
                assert (name, changed, run.status) == (name, allowed, new if allowed else old)
                if how == "completion":
                    assert run.total_tokens == (1 if allowed else 0)


async def test_a_change_keeps_what_it_does_not_give(runs: RunRepository) -> None:
    await runs.create_run(create(error="first", stop_reason="why"))
    assert await runs.update_run_status("r", "running")
    run = await runs.get_run("r")
    assert run is not None
    assert (run.error, run.stop_reason) == ("first", "why")
    assert await runs.update_run_status("r", "error", error="\x00", stop_reason="because")
    run = await runs.get_run("r")
    assert run is not None
    assert (run.error, run.stop_reason) == ("\ufffd", "because")


async def test_a_change_moves_the_time_of_the_change(runs: RunRepository) -> None:
    made = await runs.create_run(create(created_time=datetime(2026, 1, 1, tzinfo=UTC)))
    await runs.update_run_status("r", "running")
    run = await runs.get_run("r")
    assert run is not None
    assert run.updated_time > made.updated_time
    assert run.created_time == made.created_time


async def test_writing_the_same_twice_counts_as_success(runs: RunRepository) -> None:
    await runs.create_run(create(status="success"))
    for _ in range(2):
        assert await runs.update_run_status("r", "success", error="same")
        assert await runs.update_run_completion("r", status="success", total_tokens=3)
        assert await runs.update_model_name("r", "m")


async def test_a_missing_run_is_not_changed(runs: RunRepository) -> None:
    assert not await runs.update_run_status("r", "success")
    assert not await runs.start_run("r")
    assert not await runs.update_run_progress("r", total_tokens=1)
    assert not await runs.update_run_completion("r", status="success")


async def test_unknown_states_are_refused(runs: RunRepository) -> None:
    await runs.create_run(create())
    unknown: list[Any] = ["done", "", "Success", None, 1]
    for status in unknown:
        with pytest.raises(InvalidValueError, match="status"):
            await runs.update_run_status("r", status)
        with pytest.raises(InvalidValueError, match="status"):
            await runs.update_run_completion("r", status=status)
        with pytest.raises(InvalidValueError, match="status"):
            await runs.finalize_run("r", status=status)


async def test_only_a_pending_run_starts(runs: RunRepository) -> None:
    for state in STATES:
        await runs.create_run(create(state, status=state))
        assert await runs.start_run(state) == (state == "pending")
    assert (await runs.get_run("pending")).status == "running"


async def test_progress_is_for_running_runs_only(runs: RunRepository) -> None:
    for state in STATES:
        await runs.create_run(create(state, status=state))
        assert await runs.update_run_progress(state, total_tokens=9) == (state == "running")
        run = await runs.get_run(state)
        assert run is not None
        assert run.total_tokens == (9 if state == "running" else 0)


async def test_progress_keeps_what_is_left_out_and_zero_is_zero(runs: RunRepository) -> None:
    await runs.create_run(create(status="running"))
    assert await runs.update_run_progress("r", **FIGURES)
    assert await figures(runs) == FIGURES
    assert await runs.update_run_progress("r")
    assert await figures(runs) == FIGURES
    for name, value in FIGURES.items():
        nothing = type(value)()
        assert await runs.update_run_progress("r", **{name: nothing})
        assert await figures(runs) == {**FIGURES, name: nothing}
        assert await runs.update_run_progress("r", **{name: value})


async def test_completion_keeps_what_is_left_out_and_zero_is_zero(runs: RunRepository) -> None:
    await runs.create_run(create(status="running", error="e"))
    assert await runs.update_run_completion("r", status="running", **FIGURES)
    assert await runs.update_run_completion("r", status="success", total_tokens=0)
    assert await figures(runs) == {**FIGURES, "total_tokens": 0}
    run = await runs.get_run("r")
    assert run is not None
    assert (run.status, run.error) == ("success", "e")
    assert await runs.update_run_completion("r", status="success", error="late")
    assert (await runs.get_run("r")).error == "late"


async def figures(runs: RunRepository) -> dict[str, Any]:
    run = await runs.get_run("r")
    assert run is not None
    return {name: getattr(run, name) for name in FIGURES}


async def test_a_figure_that_does_not_exist_is_a_type_error(runs: RunRepository) -> None:
    with pytest.raises(TypeError, match="total_token"):
        await runs.update_run_progress("r", total_token=1)


NOT_FIGURES: list[tuple[str, Any]] = [
    ("total_tokens", 2**63),
    ("total_tokens", 1.5),
    ("total_tokens", True),
    ("total_tokens", "1"),
    ("token_usage_by_model", {"m": {"total_tokens": float("nan")}}),
    ("token_usage_by_model", {"m": "\x00"}),
    ("token_usage_by_model", []),
    ("last_ai_message", 5),
]


async def test_figures_that_do_not_fit_are_refused(runs: RunRepository) -> None:
    await runs.create_run(create(status="running"))
    for name, value in NOT_FIGURES:
        with pytest.raises(InvalidValueError, match=name):
            await runs.update_run_progress("r", **{name: value})
        with pytest.raises(InvalidValueError, match=name):
            await runs.update_run_completion("r", status="success", **{name: value})


async def test_summaries_are_cut_and_clean(runs: RunRepository) -> None:
    await runs.create_run(create(status="running"))
    await runs.update_run_progress(
        "r", first_human_message="😀" * 3000, last_ai_message="\x00" + "x" * 2000
    )
    run = await runs.get_run("r")
    assert run is not None
    assert run.first_human_message == "😀" * 2000
    assert run.last_ai_message == "\ufffd" + "x" * 1999


async def test_counts_are_64_bit_and_sums_plain_ints(runs: RunRepository) -> None:
    big = 2**62
    for name in ("r1", "r2", "r3"):
        await runs.create_run(create(name))
        await runs.update_run_completion(name, status="success", total_tokens=big)
    usage = await runs.aggregate_tokens_by_thread("t")
    assert usage["total_tokens"] == 3 * big
    assert json.loads(json.dumps(usage))["by_model"] == {"unknown": {"tokens": 3 * big, "runs": 3}}


async def test_sums_of_no_runs(runs: RunRepository) -> None:
    assert await runs.aggregate_tokens_by_thread("t") == {
        "total_tokens": 0,
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "total_runs": 0,
        "by_model": {},
        "by_caller": {"lead_agent": 0, "subagent": 0, "middleware": 0},
    }


async def test_sums_over_finished_runs(runs: RunRepository) -> None:
    async def run(name: str, status: str, usage: Any = None, **fields: Any) -> None:
        await runs.create_run(create(name, **fields))
        await runs.update_run_completion(
            name,
            status=status,
            total_tokens=100,
            total_input_tokens=60,
            total_output_tokens=40,
            lead_agent_tokens=70,
            subagent_tokens=20,
            middleware_tokens=10,
            token_usage_by_model=usage,
        )

    await run(
        "r1",
        "success",
        {
            "a": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 80},
            "b": {"total_tokens": 20},
        },
        user_id="u",
        model_name="lead",
    )
    await run("r2", "error", {"a": {"total_tokens": 5}, "c": {}, "d": {"total_tokens": None}})
    await run("r3", "success", {}, model_name="named")
    await run("r4", "success")
    await run("r5", "running", model_name="named")
    await run("r6", "timeout")
    await run("r7", "interrupted")
    await run("r8", "success", operation_kind="compact")
    await run("r9", "success", thread_id="t2")
    usage = await runs.aggregate_tokens_by_thread("t")
    assert usage == {
        "total_tokens": 400,
        "total_input_tokens": 240,
        "total_output_tokens": 160,
        "total_runs": 4,
        "by_model": {
            "a": {"tokens": 85, "runs": 2},
            "b": {"tokens": 20, "runs": 1},
            "c": {"tokens": 0, "runs": 1},
            "d": {"tokens": 0, "runs": 1},
            "named": {"tokens": 100, "runs": 1},
            "unknown": {"tokens": 100, "runs": 1},
        },
        "by_caller": {"lead_agent": 280, "subagent": 80, "middleware": 40},
    }
    assert list(usage["by_model"]) == ["a", "b", "c", "d", "named", "unknown"]
    active = await runs.aggregate_tokens_by_thread("t", include_active=True)
    assert active["total_runs"] == 5
    assert active["by_model"]["named"] == {"tokens": 200, "runs": 2}
    mine = await runs.aggregate_tokens_by_thread("t", user_id="u")
    assert (mine["total_runs"], mine["total_tokens"]) == (1, 100)


STORED: list[tuple[str, Any]] = [
    ("null", {"m": {"tokens": 7, "runs": 1}}),
    ("{}", {"m": {"tokens": 7, "runs": 1}}),
    ("[1]", {"m": {"tokens": 7, "runs": 1}}),
    ("5", {"m": {"tokens": 7, "runs": 1}}),
    ('{"x": null}', {"x": {"tokens": 0, "runs": 1}}),
    ('{"x": 5}', {"x": {"tokens": 0, "runs": 1}}),
    ('{"x": [5]}', {"x": {"tokens": 0, "runs": 1}}),
    ('{"x": {"total_tokens": "5"}}', {"x": {"tokens": 0, "runs": 1}}),
    ('{"x": {"total_tokens": true}}', {"x": {"tokens": 0, "runs": 1}}),
    ('{"x": {"total_tokens": 5.0}}', {"x": {"tokens": 5, "runs": 1}}),
    ('{"x": {"total_tokens": 1e400}}', {"x": {"tokens": 0, "runs": 1}}),
    ('{"": {"total_tokens": 1}}', {"": {"tokens": 1, "runs": 1}}),
]


async def test_sums_over_whatever_is_stored(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    await runs.create_run(create(model_name="m"))
    await runs.update_run_completion("r", status="success", total_tokens=7)
    for stored, by_model in STORED:
        raw_sql("UPDATE runs SET token_usage_by_model = %s WHERE run_id = 'r'", stored)
        usage = await runs.aggregate_tokens_by_thread("t")
        assert (stored, usage["by_model"]) == (stored, by_model)
        assert usage["total_tokens"] == 7
        assert isinstance((await runs.get_run("r")).token_usage_by_model, dict)


@pytest.mark.engines("sqlite", why="only SQLite keeps bytes in a column of text")
async def test_sums_over_a_model_name_that_is_no_text(
    runs: RunRepository, raw_sql: Callable[..., Any]
) -> None:
    await runs.create_run(create(status="success"))
    raw_sql("UPDATE runs SET model_name = x'ff' WHERE run_id = 'r'")
    usage = await runs.aggregate_tokens_by_thread("t")
    assert json.loads(json.dumps(usage))["by_model"] == {"unknown": {"tokens": 0, "runs": 1}}
