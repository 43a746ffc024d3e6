"""The notebook whose views are the documentation's pictures: a shop's orders, prices and pages.

Cells by the name of the picture that their output is. Runs that have to be caught while they wait do
so at gates: events, locks and times that outlast the pictures.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BEGIN", "PICTURES", "TABLES"]

TABLES: Final = """
CREATE SCHEMA staging;
CREATE TABLE raw_orders AS
SELECT n AS id, n % 977 AS customer, (n * 37 % 9000) / 100.0 AS amount, '2026-12-01'::date AS day
FROM generate_series(1, 48210) n;
CREATE TABLE staging.orders (id bigint, customer bigint, amount numeric, day date);
CREATE TABLE prices (sku text PRIMARY KEY, price numeric);
INSERT INTO prices SELECT 'sku-' || n, n FROM generate_series(1, 500) n;
CREATE TABLE daily_revenue (day date, revenue numeric);
"""

#: Names of shops are this machine, where the test's server is: `SHOP` is its address.
BEGIN: Final = """
import socket, threading
resolve = socket.getaddrinfo
def at_home(host, *more, **named):
    return resolve("127.0.0.1" if host in ("shop.example", b"shop.example") else host, *more, **named)
socket.getaddrinfo = at_home
gate = threading.Event()

def clean(rows):
    print(f"{len(rows):,} orders, 12 without a customer")
    return {"orders": 48198, "dropped": 12}

def load_rates(ctx):
    if ctx.attempt < 3:
        raise ConnectionError("rates.example: 503 Service Unavailable")
    return {"EUR": 1.0, "USD": 1.09}

def publish():
    return "report/2026-12-01"

def until(condition):
    while not condition():
        time.sleep(0.05)
"""

_ORDERS = """
def match_customers():
    gate.wait(300)

def slow_rates(ctx):
    if ctx.attempt < 2:
        raise ConnectionError("rates.example: 503 Service Unavailable")
    raise wb.RetryAfter(240, "rates.example asks for a pause of 4 minutes")

orders = wb.seq(
    wb.sql("INSERT INTO staging.orders SELECT * FROM raw_orders WHERE day = '2026-12-01'").named("extract"),
    wb.sql("SELECT * FROM staging.orders ORDER BY id LIMIT 20").named("sample"),
    wb.py(clean, rows=wb.ref("sample")).named("clean"),
    wb.join(
        wb.sql("INSERT INTO daily_revenue SELECT day, sum(amount) FROM staging.orders GROUP BY day").named("revenue"),
        wb.py(match_customers).named("customers"),
        wb.py(slow_rates).named("rates"),
    ),
    wb.wait_for_signal("approve"),
    wb.py(publish).named("report"),
)
nightly = bench.start(orders, label="orders 2026-12-01", input={"day": "2026-12-01"}, max_attempts=5, max_backoff=300)
until(lambda: len(nightly.attempts) >= 6)
nightly
"""

_TIMELINE = """
def match_quickly():
    time.sleep(1.6)

def polite(ctx):
    if ctx.attempt < 2:
        raise wb.RetryAfter(2.5, "rates.example asks for a pause")
    return {"EUR": 1.0}

told = bench.start(
    wb.seq(
        wb.sql("SELECT count(*) FROM raw_orders, pg_sleep(0.7)").named("extract"),
        wb.join(
            wb.py(load_rates).named("rates"),
            wb.py(match_quickly).named("customers"),
            wb.py(polite).named("currencies"),
        ),
        wb.wait_for_signal("approve"),
        wb.sleep(1.2),
        wb.sql("SELECT count(*) FROM daily_revenue, pg_sleep(0.4)").named("report"),
    ),
    label="orders 2026-11-30", max_attempts=4,
)
until(lambda: any(n.status == "waiting" for n in told.nodes))
time.sleep(1.5)
told.signal("approve")
told.wait()
told.timeline()
"""

_ATTEMPT = """
totals = "INSERT INTO daily_revenue\\nSELECT day, sum(amuont)\\nFROM staging.orders\\nGROUP BY day"
days = wb.sql("SELECT DISTINCT day FROM raw_orders").named("days")
failed = bench.start(days >> wb.sql(totals).named("revenue"), label="revenue")
failed.wait()
failed.failure
"""

_LINEAGE = """
def parse_prices(ctx):
    return {"sku-17": {"price": 12.5}}["sku-17"]["currency"]

prices = wb.sql("SELECT sku FROM prices LIMIT 3").named("skus") >> wb.py(parse_prices).named("prices")
first = bench.start(prices, label="prices shop.example")
first.wait()
second = first.retry(); second.wait()
third = second.retry(); third.wait()

def parse_prices(ctx):
    return {"sku-17": {"price": 12.5}}["sku-17"]["price"] / 0

fourth = third.resume(); fourth.wait()

def parse_prices(ctx):
    return {"sku-17": {"price": 12.5}}["sku-17"]["price"]

fifth = fourth.resume(); fifth.wait()
fifth.lineage()
"""

_FLOW = """
shop = wb.Flow("shop", max_attempts=3, base_delay=300)

@shop.step
def pages(flow_input):
    return [f"{flow_input['site']}/{n}" for n in range(500)]

@shop.map(over=pages)
def price(page):
    number = int(page.rpartition("/")[2])
    if number in (17, 230, 371):
        raise ValueError(f"no price on {page}")
    if number >= 415:
        gate.wait(300)
    return number * 1.5

@shop.step(if_={"pages": ["http://shop.example/sale"]})
def discounts(pages): ...

@shop.step
def robots(flow_input):
    return "User-agent: *"

@shop.step
def report(price, discounts, robots): ...

shop.add("load", wb.sql("INSERT INTO totals SELECT $report"), after=[report])
scrape = bench.start(shop, input={"site": "http://shop.example"}, label="shop.example")
until(lambda: sum(a.outcome == "completed" for a in scrape.attempts) > 400)
scrape.explain()
"""

_EXPLAIN = """
pages = [wb.http(f"{SHOP}/{n}", timeout=300).named(f"page{n}") for n in range(1, 5)]
crawl = wb.seq(
    wb.sql("SELECT sku FROM prices WHERE price > 490").named("skus"),
    wb.with_policy(wb.join(*pages), http={"max_concurrency": 2}),
    wb.if_("SELECT count(*) > 3 FROM prices", wb.py(publish).named("report"), wb.sleep(60)),
)
crawling = bench.start(crawl, label="crawl shop.example")
until(lambda: len(crawling.explain().held) > 1)
crawling.explain()
"""

_ACTIVITY = """
def exchange_rates():
    raise wb.RetryAfter(600, "rates.example asks for a pause of 10 minutes")

bench.start(wb.sql("UPDATE prices SET price = price * 1.02 WHERE sku = 'sku-17'").named("raise"), label="raise prices")
bench.start(wb.wait_for_schedule("0 3 * * *", "Europe/Berlin") >> wb.py(publish), label="nightly report")
bench.start(wb.loop(wb.sql("SELECT count(*) FROM raw_orders"), min_interval=900), label="watch orders")
bench.start(wb.py("images:resize"), label="product images")
bench.start(wb.wait_for_signal("approve") >> wb.py(publish), label="release 2.4")
bench.start(wb.py(exchange_rates).named("rates"), label="exchange rates", max_attempts=5, max_backoff=900)
until(lambda: len(bench.activity().df.query("state == 'wedged'")) > 1)
bench.activity()
"""

#: A second engine comes last: it finds no shop, and would be refused its pages.
_ENGINES = """
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-m", "workbench", "worker", "--dsn", DSN, "--quiet"])
until(lambda: len(bench.engines().df) > 1)
bench.engines()
"""

#: In the order in which they are run: later ones show what earlier ones have left.
PICTURES: Final = {
    "run": _ORDERS,
    "timeline": _TIMELINE,
    "attempt": _ATTEMPT,
    "lineage": _LINEAGE,
    "explain": _EXPLAIN,
    "activity": _ACTIVITY,
    "flow": _FLOW,  # its elements take all the room that is left
    "dashboard": "bench.dashboard()",
    "failures": "bench.failures()",
    "runs": "bench.runs()",
    "engines": _ENGINES,
}
