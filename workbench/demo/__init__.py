"""The demo: a durable pipeline over real data whose engine is killed half way through.

`play.play` is the whole of it. The pipeline is in `pipeline`, the database and the engine process
of the demo's own in `stage`, what is printed in `story`, `demo.html` in `page`. Everything goes
over the public API, as a notebook would do it.
"""
