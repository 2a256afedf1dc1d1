"""The interface against its own description, by generated requests."""

import os

import schemathesis
from hypothesis import HealthCheck, settings
from starlette.testclient import TestClient

from rstar.judge.queue.broker import QueueStatus
from rstar.judge.queue.jobs import Answer, Job
from rstar.judge.server.app import create_app
from rstar.judge.settings import JudgeSettings


class Echo:
    """A queue that answers every job by itself."""

    def submit(self, job: Job, prefer: str = ""):  # type: ignore[no-untyped-def]
        import asyncio

        future = asyncio.get_running_loop().create_future()
        future.set_result(Answer(job.id, stdout=job.code, lives=job.kind == "cell", seconds=0.1))
        return future

    def forget(self, states: list[str], worker: str) -> None:
        pass

    async def load(self) -> QueueStatus:
        return QueueStatus(0, 0, 1)

    async def __aenter__(self) -> "Echo":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


app = create_app(Echo(), JudgeSettings(), "test", os.open(os.devnull, os.O_WRONLY))
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_requests_of_every_kind_are_answered_as_described(case: schemathesis.Case) -> None:
    case.call_and_validate()


def test_the_description_can_be_read() -> None:
    with TestClient(app) as client:
        assert client.get("/docs").status_code == 200
