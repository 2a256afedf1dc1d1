"""A process may be forked while its threads grade."""

import multiprocessing
import threading

from rstar.grading import grade


def compare(_: int) -> str:
    return grade(r"\sqrt{12}", r"2\sqrt{3}").outcome


def test_forked_children_grade_while_threads_grade():
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            grade(r"\sin 2x", r"2\sin x\cos x")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map_async(compare, range(4)).get(timeout=100) == ["correct"] * 4
    finally:
        done.set()
        for thread in threads:
            thread.join()
