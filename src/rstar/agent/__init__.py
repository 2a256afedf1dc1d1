"""Agents: rollouts that call tools, and the scheduling of many of them."""
