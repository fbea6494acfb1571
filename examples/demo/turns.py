"""One turn of the conversation, kept the way a gateway keeps it: run, events, outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from deerstore.repositories import (
    RunCreate,
    RunEventCreate,
    build_run_event_repository,
    build_run_repository,
)

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage
    from langgraph.graph.state import CompiledStateGraph

    from deerstore.persistence import AppPersistence


@dataclass(frozen=True)
class Names:
    """The ids of one demo, made from a token so that it can be run again on the same server."""

    token: str

    @property
    def thread(self) -> str:
        """The conversation."""
        return f"demo-{self.token}"

    @property
    def user(self) -> str:
        """Its owner."""
        return f"ada-{self.token}"

    @property
    def email(self) -> str:
        """The owner's address."""
        return f"Ada.{self.token}@Example.com"

    def run(self, number: int) -> str:
        """The run of a turn."""
        return f"demo-{self.token}-run-{number}"


class Conversation:
    """Runs turns of the agent in one thread and writes down what happens."""

    def __init__(
        self,
        persistence: AppPersistence,
        agent: CompiledStateGraph[Any, Any, Any, Any],
        names: Names,
    ) -> None:
        self._persistence = persistence
        self._agent = agent
        self._names = names
        self.config = {"configurable": {"thread_id": names.thread}}

    async def turn(
        self, number: int, given: Any, *, follows: int | None = None
    ) -> list[AnyMessage]:
        """Take one turn; its new messages, the last of them unanswered when the agent asks back."""
        run_id = self._names.run(number)
        known = len(await self._messages())
        async with self._persistence.transaction() as session:
            runs = build_run_repository(session)
            await runs.create_run(
                RunCreate(
                    run_id=run_id,
                    thread_id=self._names.thread,
                    user_id=self._names.user,
                    follow_up_to_run_id=None if follows is None else self._names.run(follows),
                    metadata={"demo": True},
                )
            )
            await runs.start_run(run_id)
        await self._agent.ainvoke(given, self.config)
        fresh = (await self._messages())[known:]
        async with self._persistence.transaction() as session:
            await build_run_event_repository(session).append_batch(
                [self._event(run_id, message) for message in fresh]
            )
        return fresh

    async def finish(self, number: int, fresh: list[AnyMessage]) -> None:
        """Write down that a turn ended well, and what it cost."""
        spoken = [message for message in fresh if isinstance(message, AIMessage)]
        usage = [message.usage_metadata for message in spoken if message.usage_metadata]
        async with self._persistence.transaction() as session:
            await build_run_repository(session).update_run_completion(
                self._names.run(number),
                status="success",
                total_input_tokens=sum(each["input_tokens"] for each in usage),
                total_output_tokens=sum(each["output_tokens"] for each in usage),
                total_tokens=sum(each["total_tokens"] for each in usage),
                llm_call_count=len(usage),
                message_count=len(fresh),
                last_ai_message=str(spoken[-1].content),
            )

    async def _messages(self) -> list[AnyMessage]:
        state = await self._agent.aget_state(self.config)
        return list(state.values.get("messages", []))

    def _event(self, run_id: str, message: AnyMessage) -> RunEventCreate:
        return RunEventCreate(
            thread_id=self._names.thread,
            run_id=run_id,
            user_id=self._names.user,
            event_type=f"llm.{message.type}",
            category="message",
            content=message.model_dump(),
        )
