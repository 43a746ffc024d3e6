// The buttons that act on a run, for the views that show one. `front.js` stands before this text.

/** The buttons of a view: each asks once, says that it works, and what came of it. */
function buttons(model) {
  const bar = make("span", { className: "wb-actions" });
  bar.setAttribute("data-own", "");
  let state = "offer"; // then "cancel" or "signal", a question; then "wait"
  let asked = null; // the last question: its button gets the focus back
  const ask = (text) => make("span", { className: "wb-ask" }, text);
  const send = (message, saying) => { model.send({ type: "act", ...message }); show("wait", saying); };
  const back = (text) => button(text, "wb-button", () => show("offer", true));
  const questions = {
    cancel: () => [ask("Cancel this run?"), button("Cancel run", "wb-button wb-danger", () => send({ name: "cancel" }, "Cancelling…")), back("Keep running")],
    signal: () => [signalForm(model.get("waits"), back("Not now"), (signal, data) => send({ name: "signal", signal, data }, "Sending…"))],
  };
  const offers = { try_now: "Try now", signal: "Signal", cancel: "Cancel", retry: "Retry as new run", resume: "Resume" };
  const sayings = { try_now: "Trying again…", retry: "Retrying…", resume: "Resuming…" }; // what undoes nothing is not asked twice
  const press = (name) => (name in questions ? show(name, true) : send({ name }, sayings[name]));
  const show = (next, detail) => {
    state = next;
    if (state === "wait") bar.replaceChildren(ask(detail));
    else if (state === "offer") bar.replaceChildren(...model.get("actions").map((name) => button(offers[name], "wb-button", () => press(name))));
    else bar.replaceChildren(...questions[state]());
    if (state in questions) asked = state;
    if (state === "wait" || !detail) return;
    const target = state === "offer" ? bar.children[model.get("actions").indexOf(asked)] : bar.querySelector("input");
    (target ?? bar.lastElementChild)?.focus();
  };
  bar.onkeydown = (event) => {
    if (event.key === "Escape" && state in questions) show("offer", true);
    if (state === "signal") event.stopPropagation(); // what is typed here is no shortcut
  };
  show("offer", false);
  return {
    bar,
    changed: () => { if (state === "offer") show("offer", bar.contains(document.activeElement)); }, // a question stays until answered
    answered: () => show("offer", false),
  };
}
