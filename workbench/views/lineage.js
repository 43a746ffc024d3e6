// A lineage: a Retry button on every failed run that nobody has retried. `front.js`, which stands before this text, shows
// what comes of it.

export default {
  render(context) {
    const { model } = context;
    const waiting = new Set(); // buttons that have been pressed and not been answered
    const retry = (cell) => {
      const run = cell.dataset.run;
      const bar = make("span", {});
      bar.setAttribute("data-own", "");
      const pressed = button("Retry", "wb-button", () => {
        pressed.disabled = true;
        waiting.add(pressed);
        model.send({ type: "act", name: "retry", run });
      });
      pressed.setAttribute("aria-label", `Retry ${run}`);
      bar.append(pressed);
      return bar;
    };
    return follow(context, {
      drawn: (picture) => {
        for (const cell of picture.querySelectorAll(".wb-acts:empty")) cell.append(retry(cell));
      },
      answered: () => {
        for (const pressed of waiting) pressed.disabled = false;
        waiting.clear();
      },
    });
  },
};
