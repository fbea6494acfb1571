"""The unmodified `langgraph-sdk` client against the example gateway."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph_sdk.client import LangGraphClient

AGENT = "agent"
Connect = Any


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def texts(values: dict[str, Any]) -> list[str]:
    return [message["content"] for message in values["messages"]]


async def until_it_speaks(client: LangGraphClient, thread_id: str, run_id: str) -> None:
    async for part in client.runs.join_stream(thread_id, run_id):
        if part.event == "messages/partial":
            return
    pytest.fail("the run ended before it spoke")


async def test_a_conversation(client: LangGraphClient) -> None:
    """Threads, a streamed run, a run that asks back, state, history, figures, and the end."""
    thread = await client.threads.create(metadata={"project": "apollo", "rank": 1})
    thread_id = thread["thread_id"]
    assert (thread["status"], thread["metadata"]) == ("idle", {"project": "apollo", "rank": 1})

    created: list[Any] = []
    parts = [
        part
        async for part in client.runs.stream(
            thread_id,
            AGENT,
            input=says("weather in Lisbon"),
            stream_mode=["values", "messages", "updates"],
            on_run_created=created.append,
        )
    ]
    names = [part.event for part in parts]
    run_id = parts[0].data["run_id"]
    assert (names[0], names[-1]) == ("metadata", "end")
    assert parts[-1].data == {"run_id": run_id, "status": "success"}
    assert created == [{"run_id": run_id, "thread_id": thread_id}]
    nodes = [node for part in parts if part.event == "updates" for node in part.data]
    assert nodes == ["name_thread", "think", "tools", "think"]
    spoken = [part.data[0] for part in parts if part.event == "messages/partial"]
    assert [each["content"] for each in spoken[1:3]] == ["Lisbon: ", "Lisbon: sunny, "]
    complete = [part.data[0] for part in parts if part.event == "messages/complete"]
    assert [each["type"] for each in complete] == ["tool"]
    assert "messages/metadata" in names
    values = [part.data for part in parts if part.event == "values"][-1]
    answered = ["weather in Lisbon", "", "Lisbon: sunny, 24 degrees", "Lisbon: sunny, 24 degrees."]
    assert texts(values) == answered

    asked = await client.runs.wait(thread_id, AGENT, input=says("book 3 days in Lisbon"))
    assert asked["__interrupt__"][0]["value"] == {"question": "Book 3 days in Lisbon?"}
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    assert [each[0]["value"] for each in thread["interrupts"].values()] == [
        {"question": "Book 3 days in Lisbon?"}
    ]
    state = await client.threads.get_state(thread_id)
    assert state["next"] == ["tools"]
    assert state["interrupts"][0]["id"] == asked["__interrupt__"][0]["id"]
    booked = await client.runs.wait(thread_id, AGENT, command={"resume": "yes"})
    assert texts(booked)[-1] == "3 days in Lisbon: booked."

    thread = await client.threads.get(thread_id)
    assert (thread["status"], thread["values"]["title"]) == ("idle", "weather in Lisbon")
    runs = await client.runs.list(thread_id)
    assert [run["status"] for run in runs] == ["success"] * 3
    assert runs[-1] == await client.runs.get(thread_id, run_id)
    assert [run["run_id"] for run in await client.runs.list(thread_id, limit=1, offset=2)] == [
        run_id
    ]

    history = await client.threads.get_history(thread_id, limit=100)
    assert texts(history[0]["values"]) == texts(booked)
    older = await client.threads.get_history(thread_id, before=history[2]["checkpoint"], limit=2)
    assert [each["checkpoint_id"] for each in older] == [
        each["checkpoint_id"] for each in history[3:5]
    ]
    at = await client.threads.get_state(thread_id, checkpoint_id=history[3]["checkpoint_id"])
    assert at["values"] == history[3]["values"]
    same = await client.threads.get_state(thread_id, checkpoint=history[3]["checkpoint"])
    assert same["checkpoint"] == at["checkpoint"]

    get = client.http.get
    messages = await get(f"/threads/{thread_id}/messages")
    assert [row["seq"] for row in messages] == sorted(row["seq"] for row in messages)
    assert [row["content"]["type"] for row in messages[:4]] == ["human", "ai", "tool", "ai"]
    newest = await get(f"/threads/{thread_id}/messages", params={"limit": 2})
    assert newest == messages[-2:]
    events = await get(f"/threads/{thread_id}/runs/{run_id}/events")
    assert (events[0]["event_type"], events[-1]["event_type"]) == ("run.start", "run.end")
    only = {"event_types": ["llm.tool.result"]}
    (told,) = await get(f"/threads/{thread_id}/runs/{run_id}/events", params=only)
    assert told["content"]["content"] == "Lisbon: sunny, 24 degrees"
    usage = await get(f"/threads/{thread_id}/token-usage")
    assert usage["total_runs"] == 3
    assert usage["total_tokens"] == sum(run["total_tokens"] for run in runs) > 0

    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    again = await client.threads.create(thread_id=thread_id)
    assert (await client.threads.get(again["thread_id"]))["values"] == {}
    assert await client.threads.get_history(thread_id) == []
    assert await get(f"/threads/{thread_id}/messages") == []


async def test_threads_are_found_by_their_metadata_and_belong_to_somebody(
    connect: Callable[[str], LangGraphClient],
) -> None:
    ada, bob = connect("ada"), connect("bob")
    for number in range(3):
        await ada.threads.create(
            thread_id=f"a{number}", metadata={"n": number, "even": number % 2 == 0}
        )
    await bob.threads.create(thread_id="b", metadata={"even": True})

    async def found(**query: Any) -> list[str]:
        return [row["thread_id"] for row in await ada.threads.search(**query)]

    assert await found(metadata={"even": True}) == ["a2", "a0"]
    assert await found(metadata={"even": True, "n": 0}) == ["a0"]
    assert await found(metadata={"even": 1}) == []
    assert await found(limit=1, offset=1) == ["a1"]
    patched = await ada.threads.update("a0", metadata={"n": 7})
    assert patched["metadata"] == {"n": 7, "even": True}
    assert await found(metadata={"n": 7}) == ["a0"]
    assert await found(status="busy") == []

    with pytest.raises(ConflictError):
        await ada.threads.create(thread_id="a0")
    kept = await ada.threads.create(thread_id="a0", if_exists="do_nothing")
    assert kept["metadata"] == patched["metadata"]
    for call in (
        bob.threads.get("a0"),
        bob.threads.get_state("a0"),
        bob.threads.delete("a0"),
        bob.runs.wait("a0", AGENT, input=says("hello")),
        ada.runs.wait("a0", "another agent", input=says("hello")),
        ada.runs.wait("nowhere", AGENT, input=says("hello")),
        ada.runs.get("a0", "nothing"),
    ):
        with pytest.raises(httpx.HTTPStatusError, match=r"404|there is no"):
            await call
    with pytest.raises(ConflictError):
        # Another user's thread is never taken over.
        await bob.threads.create(thread_id="a0")
    with pytest.raises(UnprocessableEntityError):
        await ada.threads.search(metadata={"not a key!": 1})
    made = await ada.runs.wait("new", AGENT, input=says("hello"), if_not_exists="create")
    assert texts(made) == ["hello", "You said: hello"]


async def test_a_cancelled_run_keeps_what_it_did_or_undoes_it(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, AGENT, input=says("hello"))
    run = await client.runs.create(
        thread_id, AGENT, input=says("count slowly"), stream_mode="messages"
    )
    await until_it_speaks(client, thread_id, run["run_id"])
    assert (await client.threads.search(status="busy"))[0]["thread_id"] == thread_id
    with pytest.raises(ConflictError) as refused:
        await client.runs.create(thread_id, AGENT, input=says("hello"))
    assert refused.value.code == "active_run_conflict"
    with pytest.raises(ConflictError):
        await client.threads.update_state(thread_id, {"title": "no"})
    await client.runs.cancel(thread_id, run["run_id"], wait=True)
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
    kept = await client.threads.get_state(thread_id)
    assert texts(kept["values"])[-1] == "count slowly"
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    messages = await client.http.get(f"/threads/{thread_id}/messages")
    assert messages[-1]["metadata"]["interrupted"]
    assert messages[-1]["content"]["content"].startswith("1 2 ")

    undone = await client.runs.create(
        thread_id, AGENT, input=says("slowly again"), stream_mode="messages"
    )
    await until_it_speaks(client, thread_id, undone["run_id"])
    await client.runs.cancel(thread_id, undone["run_id"], wait=True, action="rollback")
    ended = await client.runs.get(thread_id, undone["run_id"])
    assert (ended["status"], ended["cancel_action"]) == ("error", "rollback")
    restored = await client.threads.get_state(thread_id)
    assert restored["values"] == kept["values"]
    assert restored["next"] == kept["next"]
    with pytest.raises(ConflictError):
        await client.runs.cancel(thread_id, undone["run_id"])


async def test_a_newer_run_rolls_back_the_one_it_takes_the_place_of(
    client: LangGraphClient,
) -> None:
    """Two come at once; the one that comes last is carried out."""
    thread_id = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread_id, AGENT, input=says("slowly"), stream_mode="messages")
    await until_it_speaks(client, thread_id, first["run_id"])
    second, third = await asyncio.gather(
        *(
            client.runs.create(
                thread_id, AGENT, input=says(f"take {n}"), multitask_strategy="rollback"
            )
            for n in (2, 3)
        )
    )
    ended = [await client.runs.join(thread_id, run["run_id"]) for run in (second, third)]
    statuses = {run["run_id"]: run["status"] for run in await client.runs.list(thread_id)}
    assert statuses[first["run_id"]] == "error"
    winners = [run for run in (second, third) if statuses[run["run_id"]] == "success"]
    assert len(winners) == 1
    values = ended[0 if winners[0] is second else 1]
    assert len(values["messages"]) == 2
    assert texts(values)[0] in ("take 2", "take 3")
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_streams_are_taken_up_again_and_joined_late(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    first = [
        part
        async for part in client.runs.stream(
            thread_id, AGENT, input=says("hello"), stream_mode=["values", "messages-tuple"]
        )
    ]
    run_id = first[0].data["run_id"]
    assert "messages" in [part.event for part in first]
    late = [part async for part in client.runs.join_stream(thread_id, run_id)]
    assert late == first
    rest = [
        part async for part in client.runs.join_stream(thread_id, run_id, last_event_id=first[2].id)
    ]
    assert rest == first[3:]
    assert texts(await client.runs.join(thread_id, run_id)) == ["hello", "You said: hello"]


async def test_a_run_that_fails_says_so_everywhere(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    parts = [part async for part in client.runs.stream(thread_id, AGENT, input=says("fail"))]
    assert [part.event for part in parts][-2:] == ["error", "end"]
    assert parts[-2].data == {"error": "ValueError", "message": "the model has no answer"}
    with pytest.raises(Exception, match="ValueError: the model has no answer"):
        await client.runs.wait(thread_id, AGENT, input=None)
    assert (await client.threads.get(thread_id))["status"] == "error"
    run = (await client.runs.list(thread_id, limit=1))[0]
    assert (run["status"], run["error"]) == ("error", "ValueError: the model has no answer")


async def test_the_state_is_written_and_what_is_not_served_is_refused(
    client: LangGraphClient,
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    written = await client.threads.update_state(
        thread_id, says("by hand") | {"title": "Mine"}, as_node="think"
    )
    state = await client.threads.get_state(thread_id)
    assert state["checkpoint"]["checkpoint_id"] == written["checkpoint"]["checkpoint_id"]
    assert state["values"]["title"] == "Mine"
    values = await client.runs.wait(thread_id, AGENT, input=says("hello"))
    assert texts(values) == ["by hand", "hello", "You said: hello"]
    assert (await client.threads.search())[0]["values"] == {"title": "Mine"}
    for refused in (
        {"multitask_strategy": "enqueue"},
        {"webhook": "http://example.com"},
        {"stream_mode": "events"},
        {"after_seconds": 5},
    ):
        with pytest.raises(UnprocessableEntityError):
            await client.runs.create(thread_id, AGENT, input=says("hello"), **refused)


async def test_a_key_makes_one_run_and_a_rating_is_ones_own(
    connect: Callable[[str], LangGraphClient],
) -> None:
    ada = connect("ada")
    thread_id = (await ada.threads.create())["thread_id"]
    key = {"idempotency-key": "once"}
    runs = await asyncio.gather(
        *(ada.runs.create(thread_id, AGENT, input=says("hello"), headers=key) for _ in range(4))
    )
    assert len({run["run_id"] for run in runs}) == 1
    run_id = runs[0]["run_id"]
    await ada.runs.join(thread_id, run_id)
    bob = connect("bob")
    his = (await bob.threads.create())["thread_id"]
    other = await bob.runs.create(his, AGENT, input=says("hello"), headers=key)
    assert other["run_id"] != run_id
    await bob.runs.join(his, other["run_id"])

    path = f"/threads/{thread_id}/runs/{run_id}/feedback"
    rated = await ada.http.put(path, json={"rating": 1, "comment": "quick"})
    changed = await ada.http.put(path, json={"rating": -1})
    assert changed["feedback_id"] == rated["feedback_id"]
    assert [row["rating"] for row in await ada.http.get(path)] == [-1]
    with pytest.raises(UnprocessableEntityError):
        await ada.http.put(path, json={"rating": 2})
    with pytest.raises(NotFoundError):
        await bob.http.get(path)
    await ada.http.delete(path)
    assert await ada.http.get(path) == []
    with pytest.raises(NotFoundError):
        await ada.http.delete(path)
