"""The order of waiting calls: turns among clients, haste before patience, nothing lost."""

import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rstar.judge.queue.fair_queue import URGENT_SECONDS, FairQueue
from rstar.judge.queue.jobs import Job, Kind

SOON, PATIENT = URGENT_SECONDS / 2, URGENT_SECONDS * 10


def job(name: str, client: str, life: float = SOON, kind: Kind = "python") -> Job:
    return Job(name, "me", kind, "1", expires=time.time() + life, client=client)


def fill(*jobs: Job) -> FairQueue:
    queue = FairQueue()
    for one in jobs:
        queue.push(one)
    return queue


def drain(queue: FairQueue) -> list[Job]:
    return [next_of(queue) for _ in range(len(queue))]


def next_of(queue: FairQueue) -> Job:
    job = queue.pop()
    assert job is not None
    return job


def test_clients_take_turns_whoever_came_first_and_asks_for_most() -> None:
    greedy = [job(f"g{n}", "greedy") for n in range(5)]
    queue = fill(*greedy, job("m1", "modest"), job("m2", "modest"), job("l", "late"))
    turns = ["greedy", "modest", "late", "greedy", "modest", "greedy", "greedy", "greedy"]
    assert [one.client for one in drain(queue)] == turns


def test_the_most_urgent_call_of_a_client_goes_first_and_equals_in_their_order() -> None:
    now = time.time()
    lives = {"c": 9.0, "a": 5.0, "d": 9.0, "b": 5.0}
    jobs = [Job(name, "me", "python", "1", expires=now + life, client="one") for name, life in lives.items()]
    assert [one.id for one in drain(fill(*jobs))] == ["a", "b", "c", "d"]


def test_one_turn_in_four_is_for_calls_that_can_wait() -> None:
    patient = [job(f"patient {n}", "a", PATIENT) for n in range(3)]
    queue = fill(*patient, *(job(f"soon {n}", "b") for n in range(7)))
    turns = [one.id.split()[0] for one in drain(queue)]
    assert turns == [*["soon"] * 3, "patient", *["soon"] * 3, "patient", "soon", "patient"]


def test_cells_do_not_wait_for_patient_calls() -> None:
    queue = fill(job("patient", "a", PATIENT), job("cell", "b", PATIENT, "cell"))
    assert [one.id for one in drain(queue)] == ["cell", "patient"]


def test_an_empty_queue_says_so() -> None:
    queue = fill(job("", "a", -1.0))
    assert len(list(queue.expired(time.time()))) == 1
    assert not queue
    assert queue.pop() is None


def test_nothing_is_kept_of_what_nobody_waits_for() -> None:
    jobs = [job(str(n), "abc"[n % 3], SOON if n % 2 else PATIENT) for n in range(600)]
    queue = fill(*jobs)
    for one in jobs[:500]:
        queue.discard(one.id)
    queue.discard("599 and never there")
    assert {one.code for one in jobs[:500]} == {""}
    assert sum(len(lane.entries()) for lane in queue._lanes) <= 300
    assert sorted(one.id for one in drain(queue)) == sorted(one.id for one in jobs[500:])
    assert queue.pop() is None


def test_a_client_that_has_enough_is_passed_over() -> None:
    enough = {"greedy"}
    queue = FairQueue(lambda client: client in enough)
    for one in (job("1", "greedy"), job("2", "greedy", PATIENT), job("3", "modest"), job("4", "greedy", -1.0)):
        queue.push(one)
    assert next_of(queue).id == "3"
    assert queue.pop() is None
    queue.push(job("5", "greedy"))
    assert [one.id for one in queue.expired(time.time())] == ["4"]
    assert len(queue) == 3
    enough.clear()
    assert queue.pop() is None  # nobody has said that this has changed
    queue.resume()
    assert [one.id for one in drain(queue)] == ["1", "5", "2"]


def test_jobs_for_one_worker_take_turns_with_all_others() -> None:
    queue = FairQueue()
    for number in range(3):
        for client in ("a", "b", "c"):
            queue.push(job(f"{client}{number}", client, kind="cell"), "w")
        for client in ("x", "y"):
            queue.push(job(f"{client}{number}", client))
    taken = [queue.pop("w") for _ in range(15)]
    turns = [one.client for one in taken if one is not None]
    assert turns[:5] == turns[5:10] == turns[10:]
    assert sorted(turns[:5]) == ["a", "b", "c", "x", "y"]


def test_a_client_has_one_turn_for_jobs_of_both_sorts() -> None:
    queue = FairQueue()
    for number in range(4):
        queue.push(job(f"any{number}", "both"))
        queue.push(job(f"cell{number}", "both", kind="cell"), "w")
        queue.push(job(f"other{number}", "other"))
    assert [one.client for one in (queue.pop("w") for _ in range(8)) if one is not None] == ["both", "other"] * 4


def test_only_its_worker_takes_a_directed_job() -> None:
    queue = FairQueue()
    queue.push(job("cell", "a", kind="cell"), "w")
    assert queue.pop("v") is None
    assert queue.pop() is None
    assert len(queue) == 1
    queue.release("w")
    assert next_of(queue).id == "cell"
    queue.push(job("late", "a", -1.0, "cell"), "w")
    queue.push(job("gone", "a", kind="cell"), "w")
    queue.discard("gone")
    assert [one.id for one in queue.expired(time.time())] == ["late"]
    assert (queue.pop("w"), len(queue)) == (None, 0)


PUSHES = st.tuples(st.sampled_from("abcd"), st.sampled_from([SOON, SOON + 1, PATIENT, PATIENT + 1]))
STEPS = st.lists(PUSHES | st.just("pop") | st.sampled_from([SOON + 0.5, PATIENT + 0.5]), max_size=60)


@given(STEPS)
def test_nothing_is_lost_and_nobody_is_passed_over(steps: list[tuple[str, float] | str | float]) -> None:
    """Any course of pushes, pops and expiries, against a list of what waits."""
    queue, now = FairQueue(), time.time()
    waiting: list[Job] = []
    skipped: Counter[tuple[bool, str, str]] = Counter()  # lane, client who waits, client who had a turn meanwhile

    def urgent(one: Job) -> bool:
        return one.expires - now < URGENT_SECONDS

    def leave(one: Job) -> None:
        waiting.remove(one)
        for key in [key for key in skipped if key[:2] == (urgent(one), one.client)]:
            del skipped[key]

    for number, step in enumerate([*steps, *["pop"] * len(steps)]):
        if isinstance(step, tuple):
            one = Job(str(number), "me", "python", "1", expires=now + step[1], client=step[0])
            queue.push(one)
            waiting.append(one)
        elif isinstance(step, float):
            late = [one for one in waiting if one.expires < now + step]
            assert sorted(one.id for one in queue.expired(now + step)) == sorted(one.id for one in late)
            for one in late:
                leave(one)
        elif waiting:
            one = next_of(queue)
            lane = [other for other in waiting if urgent(other) == urgent(one)]
            own = [other for other in lane if other.client == one.client]
            assert one is min(own, key=lambda other: (other.expires, int(other.id)))
            leave(one)
            for client in {other.client for other in lane} - {one.client}:
                key = (urgent(one), client, one.client)
                skipped[key] += 1
                assert skipped[key] <= 1, "a client had two turns while another waited"
        assert len(queue) == len(waiting)
    assert not queue
    assert not any(lane._since for lane in queue._lanes), "clients come and go: each is forgotten"
