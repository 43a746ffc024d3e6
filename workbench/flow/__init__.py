"""Flows: named DAGs of steps, written as Python functions whose parameters name what they need."""

from workbench.flow.flow import Flow

__all__ = ["Flow"]
