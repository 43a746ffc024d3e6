// The timeline: plotly draws the figure that the kernel sends, in the colours of the theme. Until it is there, and where
// it cannot be had, the picture's own bars show the same. `front.js`, which stands before this text, shows those.

const GROW = 1000; // milliseconds between moves of what goes on
const REPAINT = 250; // milliseconds between looks at the theme

/** Plotly, once a page: its script comes from a hidden widget of the kernel. */
async function plotly(model) {
  const id = model.get("loader");
  if (!id) return null;
  globalThis.__workbenchPlotly ??= (async () => {
    const loader = await model.widget_manager.get_model(id);
    // As a plain script, for a page's module loaders would keep it to themselves; by an address, so that it is compiled beside the
    // page's own work; and not while other widgets of the page begin, which are given 2 seconds for that.
    const text = ["(() => { const define = undefined, module = undefined, exports = undefined;\n", loader.get("source"), "\n})()"];
    const src = URL.createObjectURL(new Blob(text, { type: "text/javascript" }));
    await new Promise((done) => setTimeout(done, 250));
    await new Promise((done) => document.head.append(make("script", { src, onload: done, onerror: done })));
    URL.revokeObjectURL(src);
    return globalThis.Plotly ?? null;
  })();
  return globalThis.__workbenchPlotly;
}

/** Put the theme's colours in the place of names of variables; plotly takes plain ones. */
function painted(value, look) {
  if (Array.isArray(value)) return value.map((item) => painted(item, look));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, look)]));
  return typeof value === "string" && value.startsWith("--wb-") ? look(value) : value;
}

/** Look colours up where the view is: whatever way they are mixed, as plain red, green, blue. */
function looker(place) {
  const probe = make("span", {});
  const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = {};
  return (name) => {
    if (known[name]) return known[name];
    place.append(probe);
    probe.style.color = `var(${name})`;
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = getComputedStyle(probe).color;
    probe.remove();
    pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
    return (known[name] = `rgba(${red},${green},${blue},${(alpha / 255).toFixed(3)})`);
  };
}

/** A moment in the browser's zone, in plotly's words, which know no zones. */
const local = (ms) => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 23).replace("T", " ");

export default {
  render(context) {
    const { model, el } = context;
    const chart = make("div", { className: "wb-plot" });
    chart.setAttribute("data-own", "");
    let given = JSON.parse(model.get("spec"));
    let engine = null;
    let left = false;
    let asOf = 0;
    let heard = 0;

    const find = make("input", { type: "search", className: "wb-input", placeholder: "name or #number", spellcheck: false });
    const all = make("input", { type: "checkbox" });
    const ask = () => model.send({ type: "ask", find: find.value, fold: !all.checked });
    let typing = 0;
    find.oninput = () => { clearTimeout(typing); typing = setTimeout(ask, 250); };
    all.onchange = ask;
    const iterations = make("label", {}, all, "all iterations");
    const bar = make("div", { className: "wb-asking" }, make("label", {}, "find", find), iterations);
    bar.setAttribute("data-own", "");
    bar.onkeydown = (event) => event.stopPropagation(); // what is typed here is no shortcut

    const now = () => asOf + (model.get("state") === "live" ? performance.now() - heard : 0);
    const ink = () => getComputedStyle(chart).color;
    let inked = "";
    const draw = () => {
      if (!engine || left || !chart.isConnected) return;
      inked = ink();
      const look = looker(chart);
      const { data, layout, open } = given;
      const traces = data.map((trace) => ({ ...painted(trace, look), base: trace.base.map(local), x: [...trace.x] }));
      const shown = painted(layout, look);
      shown.font.family = shown.hoverlabel.font.family = getComputedStyle(chart).fontFamily;
      for (const [trace, place] of open) traces[trace].x[place] = Math.max(now() - data[trace].base[place], 1);
      for (const line of shown.shapes) line.x0 = line.x1 = local(now());
      const [first, last] = layout.xaxis.range;
      const reached = shown.shapes.length ? now() + (now() - first) * 0.02 : last;
      shown.xaxis.range = [local(first), local(Math.max(last, reached))];
      engine.react(chart, traces, shown, { displaylogo: false, responsive: true, scrollZoom: true, modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] });
    };
    const hear = () => { asOf = model.get("as_of"); heard = performance.now(); };
    hear();
    const leave = follow(context, {
      drawn: (picture) => {
        const head = picture.querySelector(".wb-head");
        head?.append(bar);
        iterations.hidden = !head || !("loops" in head.dataset);
        if (chart.previousElementSibling !== head) head?.after(chart);
      },
      answered: () => {},
      on: { "change:spec": () => { given = JSON.parse(model.get("spec")); hear(); draw(); } },
    });
    // Drawing anew takes away what is being read.
    const isRead = () => chart.querySelector(".hoverlayer > *") !== null;
    const grow = setInterval(() => { if (model.get("state") === "live" && given.open.length && !isRead()) draw(); }, GROW);
    // No event says that the style sheet of another theme has come, nor that a cell was put back that was out of sight.
    const theme = setInterval(() => { if (ink() !== inked) draw(); }, REPAINT);
    const loading = setInterval(begin, 300); // the loader's id comes a moment after the view
    async function begin() {
      if (engine || left || !model.get("loader")) return;
      clearInterval(loading);
      engine = await plotly(model);
      if (!engine || left) return;
      el.classList.add("wb-plotted");
      draw();
    }
    begin();
    return () => {
      left = true;
      for (const timer of [grow, theme, loading]) clearInterval(timer);
      engine?.purge(chart);
      leave();
    };
  },
};
