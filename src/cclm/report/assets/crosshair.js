// Labels at the ends of the curves, and the crosshair at the round that all charts show.

function lastOf(values) {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return i;
  return null;
}

function labels(plot, curves) {
  const { frame, y } = plot;
  const shown = curves.filter((curve) => lastOf(curve.values) !== null);
  const ends = shown.map((curve) => Math.min(y(curve.values[lastOf(curve.values)]), frame.bottom));
  return namesAt(plot, shown, ends);
}

function bandLabels(plot, curves) {
  const { y, steps } = plot;
  const last = steps.length - 1;
  const shown = curves.filter((curve) => curve.height(last) !== null);
  return namesAt(plot, shown, shown.map((curve) => y(curve.height(last))));
}

// Names at the right edge, each connected to its curve; the values are those of the selected round.
function namesAt({ who, frame, spec }, curves, wanted) {
  const longest = nameLength(who);
  const positions = spreadApart(wanted, 15, frame.top + 2, frame.bottom - 2);
  const values = curves.map(() => svg("tspan", { class: "value", dx: 5 }));
  const group = svg(
    "g",
    { class: "labels" },
    curves.map((curve, i) => [
      svg("path", {
        class: `thread ${curve.language.hue}`,
        d: `M${frame.right + 2} ${wanted[i].toFixed(1)}L${frame.right + 12} ${positions[i].toFixed(1)}h4`,
      }),
      svg(
        "text",
        { x: frame.right + 20, y: positions[i] + 4 },
        svg("tspan", {}, clipped(curve.language.name, longest)),
        values[i],
      ),
    ]),
  );
  const show = (i) => curves.forEach((curve, k) => (values[k].textContent = spec.format(valueAt(spec, curve, i))));
  return { group, show };
}

// Of a curve that is not measured at every round, the value that it had last.
function valueAt(spec, curve, i) {
  if (!spec.joins) return curve.values[i];
  while (i > 0 && curve.values[i] === null) i--;
  return curve.values[i];
}

// The most letters of a name at the end of a curve.
const nameLength = (who) => Math.max(5, Math.min(11, who.reduce((most, { name }) => Math.max(most, name.length), 0)));

const clipped = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

function crosshair(plot, root, curves, reading) {
  const { spec, frame, steps, x, y } = plot;
  const line = svg("line", { class: "crosshair", y1: frame.top, y2: frame.bottom });
  const step = svg("text", { class: "current-step", y: frame.bottom + 20, "text-anchor": "middle" });
  const across = [...root.querySelectorAll(".across")];
  const dotted = frame.many || spec.stacked ? [] : curves;
  const dots = dotted.map((curve) => svg("circle", { class: `dot ${curve.language.hue}`, r: 3.5 }));
  const name = svg("text", { class: "named" });
  root.append(svg("g", { class: "reading" }, line, step, dots, name));
  if (reading && spec.stacked) root.append(reading.group);
  let marked = null;
  let now = 0;
  function showName() {
    const value = marked && marked.values[now];
    if (marked === null || value === null) return name.replaceChildren();
    const right = x(steps[now]) > (frame.left + frame.right) / 2;
    const place = { x: x(steps[now]) + (right ? -8 : 8), y: y(marked.height(now)) - 8 };
    fill(name, { ...place, "text-anchor": right ? "end" : "start" }, []);
    name.replaceChildren(`${marked.language.name} ${spec.format(value)}`);
  }
  function show(i) {
    now = i;
    const at = x(steps[i]);
    fill(line, { x1: at, x2: at }, []);
    fill(step, { x: at }, []);
    const halfWidth = 4 * integer(steps[i]).length + 26;
    for (const tick of across) {
      const distance = Math.abs(Number(tick.getAttribute("x")) - at);
      tick.classList.toggle("covered", distance < halfWidth + 4 * tick.textContent.length);
    }
    step.textContent = `step ${integer(steps[i])}`;
    dots.forEach((dot, k) => {
      const value = curves[k].values[i];
      dot.toggleAttribute("hidden", value === null || y(value) > frame.bottom);
      if (value !== null) fill(dot, { cx: at, cy: y(value) }, []);
    });
    if (reading) reading.show(i);
    showName();
  }
  function highlight(curve) {
    if (marked) marked.path.classList.remove("marked");
    if (curve) curve.path.classList.add("marked");
    if (curve && !spec.stacked) curve.path.parentNode.append(curve.path);
    marked = curve;
    showName();
  }
  return { show, highlight };
}

function nearestRound({ steps, x }, at) {
  let [low, high] = [0, steps.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((x(steps[middle]) + x(steps[middle + 1])) / 2 < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearestCurve(curves, i, at, { y }) {
  let [best, least] = [null, 60];
  for (const curve of curves) {
    const height = curve.height(i);
    const distance = height === null ? Infinity : Math.abs(y(height) - at);
    if (distance < least) [best, least] = [curve, distance];
  }
  return best;
}

function description({ who, spec, steps }) {
  const end = (n) => `${who[n].name} ${spec.format(spec.table[n][lastOf(spec.table[n])])}`;
  const extent = `${spec.languages.length} ${spec.noun || "languages"}, steps ${integer(steps[0])} to ${integer(steps[steps.length - 1])}`;
  return `${extent}. At the end: ${spec.languages.slice(0, 24).map(end).join(", ")}`;
}
