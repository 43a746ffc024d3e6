// The view of one run. What it shows comes from the kernel; `front.js` and `actions.js`, which stand before this
// text, show it and act on it.

export default {
  render(context) {
    const actions = buttons(context.model);
    return follow(context, {
      drawn: (picture) => picture.querySelector(".wb-head-line")?.append(actions.bar),
      answered: actions.answered,
      on: { "change:actions": actions.changed, "change:waits": actions.changed },
    });
  },
};
