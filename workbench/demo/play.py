"""The play: start a run, kill its engine in the middle, see another one finish it, count.

One function a scene, in order. Nothing here waits for a time to pass: each scene ends when the
database says that what it is about has happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.bench import Bench
from workbench.demo import pipeline
from workbench.demo.page import write_page
from workbench.demo.stage import EngineProcess, engine_process, temporary_bench, temporary_home
from workbench.demo.story import Story
from workbench.demo.watch import Watch
from workbench.run import Run
from workbench.store import embedded
from workbench.views.run_view import RunView
from workbench.views.words import duration

if TYPE_CHECKING:
    import pandas

__all__ = ["Proof", "play"]

KILL_AT = 25  # of the rows that `publish` inserts


@dataclass(frozen=True, slots=True)
class Proof:
    """What was counted in the tables after the run.

    Attributes
    ----------
    source, staged:
        Rows of the data set, and of the table that the first step fills.
    published, different:
        Rows of the last table, and how many different (continent, year) they have.
    drawn:
        Numbers drawn from the sequence: inserts ever executed, committed or not.
    """

    source: int
    staged: int
    published: int
    different: int
    drawn: int

    @property
    def holds(self) -> bool:
        """Whether every effect is there once."""
        return self.staged == self.source and self.published == self.different == pipeline.ROWS

    def lines(self) -> list[tuple[str, str]]:
        """Return each count and what it says."""
        undone = self.drawn - self.published
        return [
            (f"{self.staged:,}", f"rows staged, of {self.source:,} in the source"),
            (f"{self.published:,}", f"rows published, {self.different:,} different ones"),
            (
                f"{self.drawn:,}",
                "rows inserted altogether, counted by a sequence, which no rollback turns back",
            ),
            (
                f"{undone:,}",
                "of them for the killed engine until Postgres noticed its death, all rolled back",
            ),
        ]


def play(page: Path, story: Story) -> Proof:
    """Play the demo and write its page.

    Parameters
    ----------
    page:
        The HTML file to write.
    story:
        Tells what happens.

    Returns
    -------
    Proof
        What was counted in the end.

    Raises
    ------
    EmbeddedError
        No Postgres can be started here.
    StateError
        The run did not do what the demo is about.
    OSError
        The page cannot be written.
    """
    story.title("workbench demo: a durable pipeline whose engine is killed half way through")
    with temporary_home() as home:
        story.tell(f"a Postgres of the demo's own starts in {home}")
        with temporary_bench(home) as bench:
            _set_the_scene(bench, story)
            with engine_process(embedded.ensure(home)) as engine:
                run = _run_until_killed(bench, engine, story)
            proof = _count(bench)
            _show(bench, run, proof, story)
            write_page(page, story.lines, proof.lines(), _view(run), holds=proof.holds)
        story.tell(f"page written: {page.resolve()}")
    story.tell(f"the server has stopped, {home} is removed")
    story.title("Next")
    story.block(
        "open the page in a browser; then the ten lines of README.md,\n"
        "or the notebooks: `make lab`, 01_quickstart.ipynb first"
    )
    return proof


def _set_the_scene(bench: Bench, story: Story) -> None:
    from plotly.data import gapminder

    loaded = bench.load(gapminder(), "gapminder")
    bench.query(pipeline.TABLES)
    version = str(_one(bench, "SHOW server_version")).split()[0]
    story.tell(
        f"Postgres {version} is ready; {loaded:,} rows of gapminder are loaded (from plotly)"
    )


def _run_until_killed(bench: Bench, engine: EngineProcess, story: Story) -> Run:
    story.tell(f"engine {engine.id} is process {engine.pid}")
    run = bench.start(pipeline.graph(), label="gapminder", max_attempts=3)
    story.tell(f"run {run.id} starts: staged → cleaned → averages → published")
    watch = Watch(run, story)
    watch.until(lambda: _drawn(bench) > 0, "the last step to begin")
    rows = f"{pipeline.ROWS} rows, slowed to {pipeline.PAUSE * 1000:.0f} ms each"
    story.tell(f"running in process {engine.pid}: {rows}", "running", "published")
    bench.work()
    story.tell("a second engine starts, in this process; it has nothing to do yet")
    watch.until(lambda: _drawn(bench) >= KILL_AT, "rows to be inserted")
    _kill(bench, run, engine, watch, story)
    watch.until(run.done, "the run to end")
    run.result()
    story.tell(f"run {run.id} is {run.status}", "completed")
    return run


def _kill(bench: Bench, run: Run, engine: EngineProcess, watch: Watch, story: Story) -> None:
    killed_at = _one(bench, "SELECT clock_timestamp()")
    signal = engine.kill()
    drawn = _drawn(bench)
    story.tell(
        f"process {engine.pid} is killed by signal {signal} (SIGKILL); {drawn} rows are in, "
        "none committed",
        "failed",
    )
    watch.until(lambda: _taken_over(run, engine), "the other engine to take over")
    node = run.node("published")
    late = (node.started_at - killed_at).total_seconds() if node.started_at else 0.0
    story.tell(
        f"taken over by engine {node.engine_id}, {duration(late)} after the kill",
        "retrying",
        "published",
    )


def _taken_over(run: Run, engine: EngineProcess) -> bool:
    node = run.node("published")
    return node.engine_id not in (None, engine.id)


def _count(bench: Bench) -> Proof:
    counts = bench.query(
        "SELECT (SELECT count(*) FROM gapminder), (SELECT count(*) FROM staged), count(*), "
        "count(DISTINCT (continent, year)) FROM published"
    ).iloc[0]
    source, staged, published, different = map(int, counts)
    return Proof(source, staged, published, different, _drawn(bench))


def _show(bench: Bench, run: Run, proof: Proof, story: Story) -> None:
    story.title(
        "Nothing was done twice" if proof.holds else "SOMETHING WAS DONE TWICE OR NOT AT ALL"
    )
    story.block("\n".join(f"{number:>6}  {what}" for number, what in proof.lines()))
    story.title("Life expectancy, weighted by population")
    story.block(_table(run["published"].df))
    story.title("The run")
    story.block(str(run.view()))
    story.title("Afterwards")


def _view(run: Run) -> RunView:
    return RunView(run.view().data)


def _table(published: pandas.DataFrame) -> str:
    table = published.pivot_table("life_expectancy", "continent", "year")
    return table[[1952, 1972, 1992, 2007]].rename_axis(None).to_string()


def _drawn(bench: Bench) -> int:
    return int(_one(bench, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM draws"))


def _one(bench: Bench, sql: str) -> Any:
    return bench.query(sql).iloc[0, 0]
