// The dashboard: which runs, which of them is looked at, and what can be done to that one. All of it is asked of the kernel;
// `front.js` and `actions.js`, which stand before this text, show what comes of it.

/** What to ask for of the list. */
function asking(model) {
  const ask = (query) => model.send({ type: "ask", query });
  const status = make("select", { className: "wb-input", onchange: () => ask({ status: status.value }) },
    make("option", { value: "" }, "all runs"), ...model.get("statuses").map((name) => make("option", {}, name)));
  const find = make("input", { type: "search", className: "wb-input", placeholder: "id, label, error", spellcheck: false });
  let typing = 0;
  find.oninput = () => { clearTimeout(typing); typing = setTimeout(() => ask({ find: find.value }), 250); };
  const bar = make("div", { className: "wb-asking" }, make("label", {}, "show", status), make("label", {}, "find", find));
  bar.setAttribute("data-own", "");
  bar.onkeydown = (event) => event.stopPropagation(); // what is typed here is no shortcut
  return { bar, ask };
}

export default {
  render(context) {
    const { model } = context;
    const { bar, ask } = asking(model);
    let run = null; // whose buttons these are
    let actions = null;
    // A button acts on the run that it was offered for, whatever is chosen meanwhile.
    const of = (id) => ({ get: (name) => model.get(name), send: (message) => model.send({ ...message, run: id }) });
    const pressed = (event) => {
      const target = event.target.closest("[data-select]") ?? event.target.closest(".wb-runs tbody tr")?.querySelector("[data-select]");
      if (target) ask({ selected: target.dataset.select });
    };
    context.el.addEventListener("click", pressed);
    const leave = follow(context, {
      drawn: (picture) => {
        picture.querySelector(".wb-head")?.append(bar);
        if (run !== model.get("selected")) {
          actions?.bar.remove();
          run = model.get("selected");
          actions = run ? buttons(of(run)) : null;
        }
        if (actions) picture.querySelector(".wb-pane-run .wb-head-line")?.append(actions.bar);
      },
      answered: () => actions?.answered(),
      on: { "change:actions": () => actions?.changed(), "change:waits": () => actions?.changed() },
    });
    return () => { context.el.removeEventListener("click", pressed); leave(); };
  },
};
