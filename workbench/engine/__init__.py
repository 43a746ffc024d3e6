"""Advancing runs: `machine.py` decides, `worker.py` does; everything durable goes through
`workbench.store`.
"""
