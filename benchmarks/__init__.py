"""Benchmarks: what a durable step costs, in commits of the server it runs on.

`python -m benchmarks [NAME …] [--quick] [--json FILE]` measures on a temporary embedded server
with real durability and prints one table. A module a topic; `registry` lists them. Nothing here is
part of the installed package.
"""
