"""What a step and an evaluation report."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from rstar.evals.metrics import pass_at_k
from rstar.rl.groups import Group
from rstar.rl.objective import Figures
from rstar.trajectories import Trajectory


def rollout_figures(groups: Sequence[Group]) -> dict[str, float]:
    """Figures of all rollouts of a step, dropped groups included (arXiv 2508.20722, figures 5 to 8).

    ``error_share``: failed calls among all calls; ``error_share_right``: among those of right rollouts. A share of no
    calls is left out.
    """
    rollouts = [one for group in groups for one in group.rollouts]
    trajectories = [trajectory for trajectory, _ in rollouts]
    return {
        "reward": fmean(reward for _, reward in rollouts),
        "response_tokens": fmean(len(one.ids) - len(one.prompt.ids) for one in trajectories),
        "turns": fmean(len(one.steps) for one in trajectories),
        "calls": fmean(sum(len(step.calls) for step in one.steps) for one in trajectories),
        **_error_share("error_share", trajectories),
        **_error_share("error_share_right", [trajectory for trajectory, reward in rollouts if reward > 0]),
        "unfinished": fmean(one.answer is None and one.finish_reason != "gave_up" for one in trajectories),
        "out_of_time": fmean(one.finish_reason == "deadline" for one in trajectories),
        "groups": len(groups),
        "groups_all_right": sum(min(group.rewards) > 0 for group in groups),
        "groups_all_wrong": sum(max(group.rewards) <= 0 for group in groups),
    }


def _error_share(name: str, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    calls = [call for one in trajectories for step in one.steps for call in step.calls]
    return {name: fmean(call.status != "ok" for call in calls)} if calls else {}


def update_figures(figures: Figures) -> dict[str, float]:
    """Means over the trained tokens."""
    tokens = max(1.0, figures.tokens)
    return {
        "tokens": figures.tokens,
        "clip_share": figures.clipped / tokens,
        "masked_share": figures.masked / tokens,
        "mismatch": figures.mismatch / tokens,
        "drift": figures.drift / tokens,
        "entropy": figures.entropy / tokens,
    }


def evaluation_figures(groups: Sequence[Group]) -> dict[str, float]:
    """mean@k and pass@k over k rollouts per problem, and how the rollouts went."""
    counts = [(len(group.rollouts), sum(reward > 0 for _, reward in group.rollouts)) for group in groups]
    k = min(n for n, _ in counts)
    return rollout_figures(groups) | {
        "mean": fmean(right / n for n, right in counts),
        f"pass@{k}": fmean(pass_at_k(n, right, k) for n, right in counts),
    }
