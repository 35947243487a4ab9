// Draws one chart over the steps: lines or stacked bands, with labels and a crosshair.

const MANY = 12; // with more languages, lines are thin, coloured by HRL or LRL, and named under the pointer

function chart(holder, data, spec, playhead) {
  const width = Math.max(holder.clientWidth || 800, 280);
  const many = spec.languages.length > MANY;
  const who = spec.who || data.languages; // whose curves these are
  const frame = {
    left: spec.left || 40, right: width - (many ? 64 : 53 + 7 * nameLength(who)), top: 26, bottom: Math.max(spec.languages.length * 15, spec.height || 220), many,
  };
  if (many) frame.bottom = spec.height || 260;
  const steps = data.rounds.steps;
  const x = scale(Math.min(0, steps[0]), steps[steps.length - 1], frame.left, frame.right);
  const [low, high] = spec.range;
  const y = scale(low, high, frame.bottom, frame.top, spec.powers);
  // Points are clipped to the frame anyway; the limits avoid huge coordinates.
  const place = (value) => Math.max(-20, Math.min(frame.bottom + 20, y(Math.max(value, spec.powers ? low / 4 : low))));
  const plot = { data, who, spec, frame, steps, x, y: place };
  const curves = spec.stacked ? bands(plot) : lines(plot);
  const reading = spec.stacked || many ? null : labels(plot, curves);
  const root = svg(
    "svg",
    {
      class: `chart${many ? " many" : ""}`, viewBox: `0 0 ${width} ${frame.bottom + 34}`,
      width, height: frame.bottom + 34, role: "img", "aria-label": `${spec.title}. ${description(plot)}`,
    },
    axes(plot, low, high),
    svg("clipPath", { id: `${spec.id}-frame` }, svg("rect", {
      x: frame.left, y: frame.top - 4, width: frame.right - frame.left + 2, height: frame.bottom - frame.top + 5,
    })),
    svg(
      "g",
      { class: `curves${steps.length > 150 ? " fine" : ""}`, "clip-path": `url(#${spec.id}-frame)` },
      curves.map((curve) => curve.path),
    ),
    spec.rule === null ? null : rule(plot),
    admissionLines(plot),
    many ? (spec.stacked ? shares(plot) : medians(plot)) : null,
  );
  root.style.setProperty("--haze", String(Math.max(0.14, Math.min(0.5, 40 / spec.languages.length))));
  const cross = crosshair(plot, root, curves, reading || (many ? null : bandLabels(plot, curves)));
  if (reading) root.append(reading.group);
  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    const ratio = width / box.width;
    const i = nearestRound(plot, (event.clientX - box.left) * ratio);
    if (many) cross.highlight(nearestCurve(curves, i, (event.clientY - box.top) * ratio, plot));
    playhead.hover(i);
  });
  root.addEventListener("pointerleave", () => {
    cross.highlight(null);
    playhead.hover(null);
  });
  holder.append(root);
  return cross.show;
}

function axes({ steps, x, y, spec, frame }, low, high) {
  const across = ticks(Math.min(0, steps[0]), steps[steps.length - 1], (frame.right - frame.left) / 110);
  const up = spec.powers ? powers(low, high) : ticks(low, high, 5);
  return svg(
    "g",
    { class: "axes" },
    up.map((value) => [
      svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y(value), y2: y(value) }),
      svg("text", { x: frame.left - 8, y: y(value) + 4, "text-anchor": "end" }, spec.tick(value)),
    ]),
    across.map((value) => {
      const style = { class: "across", x: x(value), y: frame.bottom + 20, "text-anchor": "middle" };
      return svg("text", style, integer(value));
    }),
  );
}

function powers(low, high) {
  const first = Math.ceil(Math.log2(low) - 1e-9);
  const count = Math.floor(Math.log2(high) + 1e-9) - first + 1;
  const every = Math.ceil(count / 10);
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => 2 ** (first + i * every));
}

function lines(plot) {
  const { who, spec, x, y, steps, frame } = plot;
  return spec.languages.map((number) => {
    const language = who[number];
    const values = spec.table[number];
    let pen = "M";
    const route = values.map((value, i) => {
      if (value === null && !spec.joins) pen = "M";
      const point = value === null ? "" : `${pen}${x(steps[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      if (value !== null) pen = "L";
      return point;
    });
    const colour = frame.many ? language.side || "hrl" : language.hue;
    const dashes = frame.many ? null : dash(language);
    const style = { class: `line ${colour}`, d: route.join("") || "M0 0", "stroke-dasharray": dashes };
    const path = svg("path", style, svg("title", {}, language.name));
    return { number, language, values, path, height: (i) => values[i] };
  });
}

// Weights are constant between two rounds: the edges of bands are steps, not slopes.
function bands(plot) {
  const { who, spec, x, y, steps, frame } = plot;
  const floor = steps.map(() => 0);
  return spec.languages.map((number) => {
    const language = who[number];
    const values = spec.table[number];
    const bottom = floor.slice();
    values.forEach((value, i) => (floor[i] += value || 0));
    const top = floor.slice();
    const edge = (side) => side.map((value, i) => [x(steps[i]), x(steps[Math.min(i + 1, steps.length - 1)]), y(value)]);
    const stretch = (from, to, at) => `${from.toFixed(1)} ${at.toFixed(1)}L${to.toFixed(1)} ${at.toFixed(1)}`;
    const upper = edge(top).map(([from, to, at]) => stretch(from, to, at));
    const lower = edge(bottom).reverse().map(([from, to, at]) => stretch(to, from, at));
    const colour = frame.many ? `${language.side || "hrl"} shade${number % 3}` : language.hue;
    const style = { class: `band ${colour}`, d: `M${upper.join("L")}L${lower.join("L")}Z` };
    const path = svg("path", style, svg("title", {}, language.name));
    return { number, language, values, path, height: (i) => (values[i] ? (top[i] + bottom[i]) / 2 : null) };
  });
}

function rule({ spec, frame, y }) {
  return svg(
    "g",
    { class: "rule" },
    svg("line", { x1: frame.left, x2: frame.right, y1: y(spec.rule.value), y2: y(spec.rule.value) }),
    svg("text", { x: frame.left + 6, y: y(spec.rule.value) - 6 }, spec.rule.label),
  );
}

// A thin line at each admission; names share a label where they would overlap.
function admissionLines({ data, steps, frame, x }) {
  const late = data.admissions.filter(({ step }) => step > 0 && step <= steps[steps.length - 1]);
  const groups = [];
  for (const admission of late) {
    groups.push(admissionLabel(x(admission.step), [data.languages[admission.language].name], frame));
    while (groups.length > 1 && groups[groups.length - 1].start < groups[groups.length - 2].end + 8) {
      const [first, second] = groups.splice(-2);
      groups.push(admissionLabel(first.at, [...first.names, ...second.names], frame));
    }
  }
  return svg(
    "g",
    { class: "admission-lines" },
    late.map((a) => svg("line", { x1: x(a.step), x2: x(a.step), y1: frame.top - 4, y2: frame.bottom })),
    groups.map(({ start, label }) => svg("text", { x: start, y: frame.top - 10 }, label)),
  );
}

// The label of admissions: starts at its line, or further left if it would leave the frame.
function admissionLabel(at, names, frame) {
  const label = names.length > 4 ? `${names.length} languages` : names.map((name) => clipped(name, 8)).join(", ");
  const start = Math.min(at, frame.right - 6.6 * label.length);
  return { at, names, label, start, end: start + 6.6 * label.length };
}

// With many languages: the median of the HRLs and of the LRLs, as labelled strong lines.
function medians({ who, spec, steps, frame, x, y }) {
  const sides = [["hrl", "HRLs"], ["lrl", "LRLs"]];
  const groups = sides.map(([side, label]) => {
    const tables = spec.languages.filter((n) => (who[n].side || "hrl") === side).map((n) => spec.table[n]);
    const points = steps.map((_, i) => median(tables.map((values) => values[i]).filter((value) => value !== null)));
    return { side, label, points: points.map((value, i) => [i, value]).filter(([, value]) => value !== null) };
  }).filter(({ points }) => points.length);
  const ends = spreadApart(groups.map(({ points }) => y(points[points.length - 1][1])), 15, frame.top, frame.bottom);
  const at = ([i, value]) => `${x(steps[i]).toFixed(1)} ${y(value).toFixed(1)}`;
  return svg("g", { class: "medians" }, groups.map(({ side, label, points }, k) => [
    svg("path", { class: `median ${side}`, d: `M${points.map(at).join("L")}` }),
    svg("text", { x: frame.right + 6, y: ends[k] + 4 }, label),
  ]));
}

// With many bands: the shares of all HRLs and of all LRLs in the last round.
function shares({ who, spec, steps, frame, y }) {
  const last = steps.length - 1;
  let floor = 0;
  return svg("g", { class: "medians" }, [["hrl", "HRLs"], ["lrl", "LRLs"]].map(([side, label]) => {
    const members = spec.languages.filter((n) => (who[n].side || "hrl") === side);
    const share = members.reduce((sum, n) => sum + (spec.table[n][last] || 0), 0);
    floor += share;
    const place = { x: frame.right + 6, y: y(floor - share / 2) + 4 };
    return share ? svg("text", place, `${label} ${spec.format(share)}`) : null;
  }));
}

function median(values) {
  const sorted = values.sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : null;
}
