// The activity view: how idle, which state, which words; sorting and pages; what can be done to a run. All of that is
// asked of the kernel. `front.js`, which stands before this text, shows what comes of it.

const IDLE = [0, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400]; // seconds

/** What to ask for. The slider's place is the person's; the kernel follows it. */
function asking(model) {
  const ask = (query) => model.send({ type: "ask", query });
  const nearest = () => IDLE.findLastIndex((seconds) => seconds <= model.get("idle"));
  const words = (place) => (IDLE[place] ? duration(IDLE[place]) : "any time");
  const idle = make("input", { type: "range", min: 0, max: IDLE.length - 1, step: 1, value: nearest() });
  const said = make("output", {}, words(idle.value));
  idle.oninput = () => { said.textContent = words(idle.value); };
  idle.onchange = () => ask({ idle: IDLE[idle.value] });
  const state = make("select", { className: "wb-input", onchange: () => ask({ state: state.value }) },
    make("option", { value: "" }, "all states"), ...model.get("states").map((name) => make("option", {}, name)));
  const find = make("input", { type: "search", className: "wb-input", placeholder: "id, label, reason", spellcheck: false });
  let typing = 0;
  find.oninput = () => { clearTimeout(typing); typing = setTimeout(() => ask({ find: find.value }), 250); };
  const bar = make("div", { className: "wb-asking" },
    make("label", {}, "idle at least", idle, said), make("label", {}, "show", state), make("label", {}, "find", find));
  bar.setAttribute("data-own", "");
  bar.onkeydown = (event) => event.stopPropagation(); // what is typed here is no shortcut
  return { bar, ask };
}

/** What can be done to the run of one row. */
function acts(model, cell) {
  const bar = make("span", { className: "wb-act" });
  bar.setAttribute("data-own", "");
  const run = () => cell.dataset.run;
  let state = "offer"; // then a question, then "wait"
  const send = (message, saying) => { model.send({ type: "act", run: run(), ...message }); show("wait", saying); };
  const back = (text) => button(text, "wb-button", () => show("offer", true));
  const ask = (text) => make("span", { className: "wb-ask" }, text);
  const names = { cancel: "Cancel", signal: "Signal", retry_now: "Retry now" };
  const questions = {
    cancel: () => [ask(`Cancel ${run()}?`), button("Cancel run", "wb-button wb-danger", () => send({ name: "cancel" }, "Cancelling…")), back("Keep running")],
    signal: () => [signalForm([cell.dataset.signal], back("Not now"), (signal, data) => send({ name: "signal", signal, data }, "Sending…"))],
  };
  const begin = (name) => (questions[name] ? show(name, true) : send({ name }, "Trying again…"));
  const offer = (name) => {
    const made = button(names[name], "wb-button", () => begin(name));
    made.setAttribute("aria-label", `${names[name]} ${run()}`);
    return made;
  };
  const show = (next, focus) => {
    state = next;
    if (state === "wait") bar.replaceChildren(ask(focus));
    else if (state === "offer") bar.replaceChildren(...cell.dataset.can.split(" ").map(offer));
    else bar.replaceChildren(...questions[state]());
    if (state !== "wait" && focus) (bar.querySelector("input") ?? bar.lastElementChild)?.focus();
  };
  bar.onkeydown = (event) => {
    if (event.key === "Escape" && state in questions) show("offer", true);
    if (state === "signal") event.stopPropagation();
  };
  show("offer", false);
  let offered = cell.dataset.can;
  return {
    bar,
    drawn: () => {
      if (state === "offer" && cell.dataset.can !== offered) show("offer", bar.contains(document.activeElement));
      offered = cell.dataset.can;
    },
    answered: () => { if (state === "wait") show("offer", false); },
  };
}

export default {
  render(context) {
    const { bar, ask } = asking(context.model);
    const rows = new Map(); // a row's cell of actions, and what is in it
    const pressed = (event) => {
      const target = event.target.closest("[data-sort], [data-page]");
      if (!target) return;
      ask("sort" in target.dataset ? { sort: target.dataset.sort } : { page: Number(target.dataset.page) });
    };
    context.el.addEventListener("click", pressed);
    const leave = follow(context, {
      drawn: (picture) => {
        picture.querySelector(".wb-head")?.append(bar);
        for (const cell of picture.querySelectorAll(".wb-acts")) {
          if (!rows.has(cell)) {
            rows.set(cell, acts(context.model, cell));
            cell.append(rows.get(cell).bar);
          }
          rows.get(cell).drawn();
        }
        for (const cell of rows.keys()) if (!picture.contains(cell)) rows.delete(cell);
      },
      answered: () => { for (const row of rows.values()) row.answered(); },
    });
    return () => { context.el.removeEventListener("click", pressed); leave(); };
  },
};
