"""The interface, at a real service: the reference's requests and replies, and what goes beyond them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from rstar.judge.queue.jobs import MAX_SHOWN
from tests.judge.services import serving, wait_for


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("judge"), "--seconds", "6") as (found, _):
        yield found


def post(url: str, path: str, body: Any) -> Any:
    response = httpx.post(f"{url}{path}", json=body, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()


# What the reference service answers, field by field; `cost` and made-up names are left open.
REFERENCE = [
    (
        {"type": "python", "solution": "print(input())", "input": "9", "expected_output": "9"},
        {"success": True, "run_success": True, "stdout": "9\n", "stderr": "", "reason": ""},
    ),
    (
        {"type": "python", "solution": "print(9)", "expected_output": " 9 \n\n"},
        {"success": True, "run_success": True, "stdout": "9\n", "reason": ""},
    ),
    (
        {"type": "python", "solution": "print(input())", "input": "a", "expected_output": "b"},
        {"success": False, "run_success": True, "stdout": "a\n", "reason": ""},
    ),
    (
        {"type": "python", "solution": "raise ValueError('no')"},
        {"success": False, "run_success": False, "stdout": "", "reason": ""},
    ),
    (
        {"type": "python", "solution": "import time\nwhile True: time.sleep(1)", "expected_output": ""},
        {"success": False, "run_success": False, "stdout": "Suicide from timeout.\n", "reason": "worker_timeout"},
    ),
    (
        {"type": "cpp", "solution": '#include <cstdio>\nint main(){printf("a");}', "expected_output": "a"},
        {"success": True, "run_success": True, "stdout": "a", "reason": ""},
    ),
    (
        {"type": "cpp", "solution": '#include <cstdio>\nint main(){printf("a");}', "expected_output": "b"},
        {"success": False, "run_success": True, "stdout": "a", "reason": ""},
    ),
    (
        {"type": "cpp", "solution": "int main(){return 0;}xx", "expected_output": "b"},
        {"success": False, "run_success": False, "stdout": "", "reason": ""},
    ),
    (
        {"type": "cpp", "solution": "#include <unistd.h>\nint main(){for(;;)pause();}"},
        {"success": False, "run_success": False, "stdout": "Suicide from timeout.\n", "reason": "worker_timeout"},
    ),
    (
        {"type": "math", "solution": r"so it is \boxed{\frac{1}{2}}", "expected_output": "0.5"},
        {"success": True, "run_success": True, "reason": ""},
    ),
    (
        {"type": "math", "solution": r"so it is \boxed{2}", "expected_output": "0.5"},
        {"success": False, "run_success": True, "reason": ""},
    ),
]


@pytest.mark.parametrize(("request_", "wanted"), REFERENCE, ids=lambda value: str(value.get("solution", ""))[:24])
def test_the_reference_s_clients_get_what_they_expect(url: str, request_: Any, wanted: Any) -> None:
    report = post(url, "/run", request_ | {"sub_id": "mine"})
    assert {name: report[name] for name in wanted} == wanted
    assert report["sub_id"] == "mine"
    assert report["cost"] >= 0
    verdict = post(url, "/judge", request_)
    shown = {name: value for name, value in wanted.items() if name not in ("stdout", "stderr")}
    assert {name: verdict[name] for name in shown} == shown
    assert verdict.keys() == {"sub_id", "success", "run_success", "cost", "reason"}


@pytest.mark.parametrize("path", ["/run/batch", "/run/long-batch", "/judge/batch", "/judge/long-batch"])
def test_batches_are_answered_in_order(url: str, path: str) -> None:
    submissions = [{"type": "python", "solution": f"print({n})", "sub_id": str(n)} for n in range(20)]
    reply = post(url, path, {"type": "batch", "sub_id": "all", "submissions": submissions})
    assert reply["sub_id"] == "all"
    assert [result["sub_id"] for result in reply["results"]] == [str(n) for n in range(20)]
    if path.startswith("/run"):
        assert [result["stdout"] for result in reply["results"]] == [f"{n}\n" for n in range(20)]


def test_where_the_reference_goes_wrong(url: str) -> None:
    """Its marks in the output, a fork, bytes that are no text, `__future__`, lines of errors, no input, `alarm(0)`."""
    run = {
        "mark": post(url, "/run", {"type": "python", "solution": "print('@@E')", "expected_output": "@@E"}),
        "bytes": post(url, "/run", {"type": "python", "solution": "import os; os.write(1, b'\\xff\\n')"}),
        "future": post(url, "/run", {"type": "python", "solution": "from __future__ import annotations\nprint(1)"}),
        "line": post(url, "/run", {"type": "python", "solution": "\n1/0"}),
        "alarm": post(url, "/run", {"type": "python", "solution": "import signal\nsignal.alarm(0)\nwhile 1: pass"}),
        "input": post(
            url, "/run", {"type": "python", "solution": "import sys\nprint(len(sys.stdin.read()))", "input": ""}
        ),
        "fork": post(url, "/run", {"type": "python", "solution": "import os\nos.fork()"}),
    }
    assert run["mark"]["success"]
    assert run["bytes"]["stdout"] == "\ufffd\n"
    assert run["future"]["stdout"] == "1\n"
    assert run["line"]["error"] == {"kind": "ZeroDivisionError", "message": "division by zero", "line": 2}
    assert "line 2" in run["line"]["stderr"]
    assert run["alarm"]["reason"] == "worker_timeout"
    assert run["input"]["stdout"] == "0\n"
    assert run["fork"]["status"] == "error"
    assert run["fork"]["reason"] == ""


def test_more_than_the_reference_tells(url: str) -> None:
    long = post(url, "/run", {"type": "python", "solution": "print('x' * 3000)"})
    assert (len(long["stdout"]), long["truncated"]) == (1000, True)
    all_ = post(url, "/run", {"type": "python", "solution": "print('x' * 3000)", "limits": {"shown": 5000}})
    assert (len(all_["stdout"]), all_["truncated"]) == (3001, False)
    assert post(url, "/run", {"type": "python", "solution": "raise SystemExit(3)"})["exit_code"] == 3
    assert post(url, "/run", {"type": "cpp", "solution": "int main(){return 4;}"})["exit_code"] == 4
    assert post(url, "/run", {"type": "cpp", "solution": "#include <cstdlib>\nint main(){abort();}"})["signal"] == 6
    quick = post(url, "/run", {"type": "python", "solution": "import time; time.sleep(9)", "limits": {"seconds": 0.3}})
    assert quick["reason"] == "worker_timeout"
    assert quick["cost"] < 8
    greedy = post(url, "/run", {"type": "python", "solution": "x = bytearray(200 << 20)", "limits": {"memory_mb": 64}})
    assert greedy["status"] == "memory"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "perl", "solution": ""},
        {"type": "python"},
        {"type": "python", "solution": 1},
        {"type": "python", "solution": "", "limits": {"seconds": -1}},
        {"type": "python", "solution": "", "limits": {"memory": 1}},
    ],
)
def test_malformed_requests_are_refused(url: str, body: Any) -> None:
    assert httpx.post(f"{url}/run", json=body).status_code == 422


def test_unknown_limits_are_refused_by_name_and_other_fields_of_clients_are_ignored(url: str) -> None:
    run = {"type": "python", "solution": "print(1)", "timeout": 3, "sub_type": "x"}
    assert post(url, "/run", run)["success"]
    detail = httpx.post(f"{url}/run", json=run | {"limits": {"second": 1}}).json()["detail"]
    assert [found["loc"] for found in detail] == [["body", "limits", "second"]]
    schemas = httpx.get(f"{url}/openapi.json").json()["components"]["schemas"]
    assert schemas["CallLimits"]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["Submission"]
    assert "additionalProperties" not in schemas["Batch"]


def test_math_without_a_gold_answer_is_invalid(url: str) -> None:
    report = post(url, "/run", {"type": "math", "solution": "5"})
    assert (report["reason"], report["success"]) == ("invalid_input", False)


def test_state_routes(url: str) -> None:
    assert httpx.get(f"{url}/ping").json() == "pong"
    assert httpx.get(f"{url}/status").json() == {"queue": 0, "num_workers": 2}
    post(url, "/run", {"type": "python", "solution": "1"})
    metrics = httpx.get(f"{url}/metrics").text
    assert 'rstar_judge_calls_total{end="ok",kind="python"}' in metrics
    assert "rstar_judge_slots 2.0" in metrics
    assert "/run/long-batch" in httpx.get(f"{url}/openapi.json").json()["paths"]
    assert httpx.get(f"{url}/docs").status_code == 200


def test_endless_loops_do_not_hold_up_the_others(url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        loop = {"type": "python", "solution": "while True: pass", "limits": {"seconds": 1}}
        loops = [pool.submit(post, url, "/run", loop) for _ in range(4)]
        short = post(url, "/run", {"type": "python", "solution": "print(1)"})
        assert short["success"]
        assert not any(loop.done() for loop in loops)
        assert {loop.result()["reason"] for loop in loops} == {"worker_timeout"}


def test_who_goes_away_takes_the_calls_along(url: str) -> None:
    body = {"type": "python", "solution": "import time; time.sleep(100)", "limits": {"seconds": 200}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/run", json=body, timeout=0.5)
    wait_for(lambda: "rstar_judge_running 0.0" in httpx.get(f"{url}/metrics").text)


# ---- sessions


def test_a_session_remembers_forks_and_ends(url: str) -> None:
    session = httpx.post(f"{url}/sessions").json()["session_id"]
    assert post(url, f"/sessions/{session}/run", {"code": "x = 40"})["status"] == "ok"
    copy = httpx.post(f"{url}/sessions/{session}/fork").json()
    assert copy["cells"] == 1
    assert post(url, f"/sessions/{session}/run", {"code": "x += 2\nx"})["stdout"] == "42\n"
    assert post(url, f"/sessions/{copy['session_id']}/run", {"code": "x"})["stdout"] == "40\n"
    branch = post(url, f"/sessions/{session}/run", {"code": "x = 0", "fork": True})["session_id"]
    assert branch != session
    assert post(url, f"/sessions/{session}/run", {"code": "x"})["stdout"] == "42\n"
    assert post(url, f"/sessions/{branch}/run", {"code": "x"})["stdout"] == "0\n"
    assert httpx.delete(f"{url}/sessions/{session}").status_code == 204
    for response in (httpx.delete(f"{url}/sessions/{session}"), httpx.get(f"{url}/sessions/{session}")):
        assert response.status_code == 404
        assert session in response.json()["detail"]


def test_a_session_survives_what_its_cells_do(url: str) -> None:
    session = httpx.post(f"{url}/sessions").json()["session_id"]
    post(url, f"/sessions/{session}/run", {"code": "x = 1"})
    error = post(url, f"/sessions/{session}/run", {"code": "y = 2\n1/0"})
    assert (error["status"], error["error"]["line"]) == ("error", 2)
    late = post(url, f"/sessions/{session}/run", {"code": "x = 5\nwhile 1: pass", "limits": {"seconds": 0.3}})
    assert late["status"] == "timeout"
    assert post(url, f"/sessions/{session}/run", {"code": "x + y"})["stdout"] == "3\n"


def test_two_cells_at_once_in_one_session_are_not_mixed_up(url: str) -> None:
    """Of those that overlap, the first to end counts."""
    session = httpx.post(f"{url}/sessions").json()["session_id"]
    statuses = []
    with httpx.Client(base_url=url, timeout=100) as client, ThreadPoolExecutor(1) as pool:
        body = {"code": "import time; time.sleep(3); a = 1", "limits": {"seconds": 60}}
        slow = pool.submit(httpx.post, f"{url}/sessions/{session}/run", json=body, timeout=100)
        while not slow.done():
            statuses.append(client.post(f"/sessions/{session}/run", json={"code": "b = 1"}).status_code)
    assert slow.result().status_code == 409
    assert set(statuses[:-1]) == {200}
    assert httpx.get(f"{url}/sessions/{session}").json()["cells"] == statuses.count(200)


def test_the_submissions_of_a_batch_share_what_its_reply_may_show(url: str) -> None:
    programs = [{"type": "python", "solution": "print('x' * 900_000)", "limits": {"shown": 1_000_000}}] * 40
    results = post(url, "/run/batch", {"type": "batch", "submissions": programs})["results"]
    assert {(len(result["stdout"]), result["truncated"]) for result in results} == {(MAX_SHOWN // 40, True)}
