// What every live view's front end does. The kernel sends the picture as HTML; here it replaces the
// one before without losing what people have opened, focused or scrolled; moments are put into the
// browser's zone and running durations run. Nothing is fetched. The rest of a view's module follows
// this text: its buttons, and what it exports.

const TICK = 200; // milliseconds between moves of running durations
const SILENCE = 15_000; // milliseconds without a word after which a view is not called live
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Say a duration as `words.duration` does in Python. */
export function duration(seconds) {
  seconds = Math.max(seconds, 0);
  if (seconds < 0.9995) return seconds === 0 ? "0 s" : `${Math.max(Math.round(seconds * 1000), 1)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const index = UNITS.findIndex(([unit]) => whole >= unit);
  const [unit, name] = UNITS[index];
  const [smaller, smallerName] = UNITS[index + 1] ?? [1, ""];
  const rest = index + 1 < UNITS.length ? Math.floor((whole % unit) / smaller) : 0;
  return `${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${smallerName}` : ""}`;
}

/** Say a moment in the browser's zone: `2026-11-30 09:12:05 +01:00`. */
export function moment(at) {
  const two = (number) => String(number).padStart(2, "0");
  const offset = -at.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${zone}`;
}

/** Say a moment by the time of day when it is today, as `words.clock` does in Python. */
function clock(at, now) {
  const [day, time] = moment(at).split(" ");
  return at.toDateString() === now.toDateString() ? time : `${day} ${time}`;
}

/** Make `old` equal to `fresh`, keeping every element that has an equal. */
export function morph(old, fresh) {
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !(name === "open" && old.localName === "details")) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  let next = old.firstChild;
  const skip = () => { while (next?.hasAttribute?.("data-own")) next = next.nextSibling; };
  const keyed = new Map();
  for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  for (const child of [...fresh.childNodes]) {
    skip();
    const key = child.dataset?.key;
    const twin = key ? keyed.get(key) : next && !next.dataset?.key ? next : null;
    if (!twin || twin.nodeName !== child.nodeName) {
      old.insertBefore(child, next);
      continue;
    }
    if (twin === next) next = next.nextSibling;
    else old.insertBefore(twin, next);
    if (twin.nodeType === Node.ELEMENT_NODE) morph(twin, child);
    else if (twin.data !== child.data) twin.data = child.data;
  }
  for (skip(); next; skip()) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/** Bring what depends on the time up to `now`, milliseconds since 1970 by the database's clock. */
function tick(picture, now) {
  const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  for (const element of picture.querySelectorAll("[data-since]")) {
    const seconds = Math.max(now - element.dataset.since, 0) / 1000;
    say(element, seconds < 1 ? `${seconds.toFixed(1)} s` : duration(seconds));
  }
  for (const element of picture.querySelectorAll("[data-until]"))
    say(element, duration(Math.max(Math.ceil((element.dataset.until - now) / 1000), 0)));
  const whole = ((picture.dataset.end ?? now) - picture.dataset.start) / 1000;
  if (!(whole > 0)) return;
  for (const mark of picture.querySelectorAll("i[data-from]")) {
    const from = Number(mark.dataset.from);
    const to = mark.dataset.to === undefined ? whole : Number(mark.dataset.to);
    const left = Math.min(Math.max(from / whole, 0), 0.98) * 100;
    mark.style.left = `${left.toFixed(1)}%`;
    mark.style.width = `${Math.min(Math.max((to - from) / whole, 0) * 100, 100 - left).toFixed(1)}%`;
  }
}

/** Move through a tree of steps with the arrow keys. */
function walk(event) {
  const row = event.target.closest("[role=treeitem]");
  if (!row || event.target !== row || event.altKey || event.ctrlKey || event.metaKey) return;
  const rows = [...row.closest("[role=tree]").querySelectorAll("[role=treeitem]")].filter((each) => each.checkVisibility());
  const place = rows.indexOf(row);
  const level = Number(row.ariaLevel);
  const details = row.localName === "summary" ? row.parentElement : null;
  const moves = {
    ArrowDown: () => rows[place + 1],
    ArrowUp: () => rows[place - 1],
    Home: () => rows[0],
    End: () => rows.at(-1),
    ArrowRight: () => {
      if (details && !details.open) details.open = true;
      else if (Number(rows[place + 1]?.ariaLevel) > level) return rows[place + 1];
    },
    ArrowLeft: () => {
      if (details?.open) details.open = false;
      else return rows.slice(0, place).findLast((other) => Number(other.ariaLevel) < level);
    },
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  event.stopPropagation();
  moves[event.key]()?.focus();
}

function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** The line at the foot: whether the picture is live, else as of when and why. */
function status() {
  const line = make("span", { className: "wb-live" });
  line.setAttribute("data-own", "");
  line.setAttribute("role", "status");
  line.setAttribute("aria-live", "polite");
  let shown = "";
  return {
    line,
    say(live, text, { done, refusal }) {
      const now = JSON.stringify([live, text, done, refusal]);
      if (now === shown) return;
      shown = now;
      const parts = [make("span", { className: live ? "wb-pulse" : "" }), make("span", {}, text)];
      if (done) parts.push(make("span", { className: "wb-done" }, ` · ${done}`));
      if (refusal) parts.push(make("span", { className: "wb-refusal" }, refusal));
      line.replaceChildren(...parts);
    },
  };
}

/** A button, by its text. */
const button = (text, className, onclick) => make("button", { type: "button", className, onclick }, text);

/** Show a view and keep it current until the returned function is called. `drawn(picture)` puts what the view has of its own
    into each new picture; `on` are more changes of the model to hear of. */
function follow({ model, el }, { drawn, answered, on: more = {} }) {
  const frontEnd = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  const foot = status();
  const picture = make("section", {});
  let heard = 0; // when the kernel last spoke, and as of when
  let asOf = 0;
  let outcome = {};

  const hear = () => {
    if (model.get("as_of") === asOf) return;
    asOf = model.get("as_of");
    heard = performance.now();
  };
  const fresh = () => performance.now() - heard < SILENCE;
  const live = () => model.get("state") === "live" && fresh();
  const now = () => asOf + (live() ? performance.now() - heard : 0);
  const tell = () => {
    const state = model.get("state");
    const why = state === "live" && !fresh() ? "no news from the kernel" : model.get("reason");
    const taken = `as of ${moment(new Date(asOf))}`;
    foot.say(live(), live() ? "live" : why ? `${taken} · not current: ${why}` : taken, outcome);
  };
  const draw = () => {
    hear();
    const template = make("template", { innerHTML: model.get("html") });
    const next = template.content.firstElementChild;
    for (const time of next.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      time.textContent = "short" in time.dataset ? clock(at, new Date(now())) : moment(at);
    }
    tick(next, now());
    morph(picture, next);
    drawn(picture);
    picture.querySelector(":scope > .wb-foot")?.append(foot.line);
    tell();
  };
  const ticking = setInterval(() => { if (model.get("state") === "live") { if (fresh()) tick(picture, now()); tell(); } }, TICK);

  const on = {
    "change:as_of": () => { hear(); tell(); },
    "change:html": draw,
    "change:state": tell,
    "change:reason": tell,
    "change:outcome": () => { outcome = model.get("outcome"); answered(); tell(); },
    ...more,
  };
  for (const [event, handler] of Object.entries(on)) model.on(event, handler);
  picture.addEventListener("keydown", walk);
  const say = (type) => model.send({ type, front_end: frontEnd });
  const leave = () => say("hidden");
  window.addEventListener("pagehide", leave);

  el.classList.add("wb-widget");
  el.append(picture);
  draw();
  say("shown");
  return () => {
    clearInterval(ticking);
    for (const [event, handler] of Object.entries(on)) model.off(event, handler);
    window.removeEventListener("pagehide", leave);
    leave();
  };
}

/** The question which signal to send with what data; text that is no JSON is sent as text. */
function signalForm(names, back, send) {
  const data = make("input", { className: "wb-input", placeholder: 'data: JSON or text', spellcheck: false });
  data.setAttribute("aria-label", "data of the signal");
  const choice = names.length > 1 ? make("select", { className: "wb-input" }, ...names.map((name) => make("option", {}, name))) : null;
  choice?.setAttribute("aria-label", "signal");
  const form = make("form", { className: "wb-form", onsubmit: (event) => { event.preventDefault(); send(choice?.value ?? names[0], data.value); } });
  form.append(make("span", { className: "wb-ask" }, choice ? "Signal" : `Signal ${names[0]}`), ...(choice ? [choice] : []), data,
    Object.assign(button("Send", "wb-button wb-primary", null), { type: "submit" }), back);
  return form;
}
