"""Reinforcement learning of agents from verified answers: rollouts, selection, advantages, updates."""
