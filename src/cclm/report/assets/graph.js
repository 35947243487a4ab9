// The language graph at a moment of training: HRLs left, LRLs right, each LRL a ring that closes towards the threshold.

const SIZES = [
  { upTo: 8, pitch: 68, radius: 22, font: 14 },
  { upTo: 40, pitch: 27, radius: 8, font: 12 },
  { upTo: Infinity, pitch: 17, radius: 5, font: 11 },
];

function languageGraph(holder, data) {
  const { hrls, lrls } = data.graph;
  const rows = Math.max(hrls.length, lrls.length);
  const size = SIZES.find((candidate) => rows <= candidate.upTo);
  const names = [...hrls, ...lrls].map((number) => data.languages[number].name);
  const inside = size === SIZES[0] && Math.max(...names.map((name) => name.length)) <= 4;
  const width = Math.min(Math.max(holder.clientWidth || 800, 280), 820);
  const beside = inside ? 0 : Math.min(8 * Math.max(...names.map((name) => name.length)), 110);
  const edge = Math.max((width - 560) / 2, 0);
  const at = { hrl: edge + size.radius + 6 + beside, lrl: width - edge - size.radius - 64 - beside };
  const height = rows * size.pitch + 34;
  const row = (count, i) => 30 + (rows * size.pitch * (i + 0.5)) / count;
  const places = new Map();
  hrls.forEach((number, i) => places.set(number, [at.hrl, row(hrls.length, i)]));
  lrls.forEach((number, i) => places.set(number, [at.lrl, row(lrls.length, i)]));
  const scene = { data, size, inside, places };
  const edges = lrls.map((lrl, j) => edgesTo(scene, lrl, j));
  const nodes = [...hrls, ...lrls].map((number) => node(scene, number));
  const root = svg(
    "svg",
    { class: "graph", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
    svg("text", { class: "side", x: Math.max(at.hrl, 40), y: 14, "text-anchor": "middle" }, "high-resource"),
    svg("text", { class: "side", x: at.lrl, y: 14, "text-anchor": "middle" }, "low-resource"),
    edges.flatMap(({ faint }) => faint),
    edges.flatMap(({ strong }) => strong),
    nodes.map((one) => one.group),
  );
  holder.append(root);
  setTimeout(() => root.classList.add("alive"), 100); // the first state is there at once, later ones fade in
  return (i) => {
    const said = nodes.map((one) => one.show(i)).filter(Boolean);
    lrls.forEach((lrl, j) => edges[j].strong.forEach((one) => one.classList.toggle("open", admittedAt(data, lrl, i))));
    root.setAttribute("aria-label", `Language graph at step ${whole(stepAt(data, i))}. ${said.join("; ")}`);
  };
}

const stepAt = (data, i) => (i < 0 ? 0 : data.rounds.steps[i]);

function admittedAt(data, number, i) {
  const admission = data.arrival.get(number);
  return admission !== undefined && admission.step <= stepAt(data, i);
}

function edgesTo({ data, size, places }, lrl, j) {
  const { hrls, nearest, similarity, absent, lrls } = data.graph;
  const strongest = Math.max(...similarity.flat(), 1e-9);
  const few = Math.max(hrls.length, lrls.length) <= 40 && !absent;
  const [x2, y2] = places.get(lrl);
  const [faint, strong] = [[], []];
  hrls.forEach((hrl, i) => {
    const [x1, y1] = places.get(hrl);
    const middle = (x1 + x2) / 2;
    const share = similarity[j][i] / strongest;
    const near = hrl === nearest[j];
    if (!near && !few) return;
    const names = `${data.languages[hrl].name} → ${data.languages[lrl].name}: ${short(similarity[j][i])}`;
    const thickness = (size.radius / 22) * 0.7 + 0.3;
    const path = svg(
      "path",
      {
        class: near ? `edge near ${hue(data.languages[hrl])}` : "edge",
        d: `M${x1 + size.radius} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2 - size.radius - 3} ${y2}`,
        "stroke-width": thickness * (near ? 1.5 + 2.5 * share : 0.6 + 2 * share),
        "stroke-opacity": near ? null : String((0.15 + 0.5 * share) * Math.min(1, 8 / hrls.length)),
      },
      svg("title", {}, names),
    );
    (near ? strong : faint).push(path);
    if (!near || size !== SIZES[0]) return;
    strong.push(...similarityLabel([x1 + size.radius, y1], [x2 - size.radius, y2], similarity[j][i]));
  });
  return { faint, strong };
}

// Near the LRL, where the strong edges have parted.
function similarityLabel([x1, y1], [x2, y2], value) {
  const t = 0.7;
  const x = (1 - t) ** 3 * x1 + (3 * t * (1 - t) * (x1 + x2)) / 2 + t ** 3 * x2;
  const y = y1 + (y2 - y1) * t * t * (3 - 2 * t);
  return [
    svg("rect", { class: "ground", x: x - 17, y: y - 9, width: 34, height: 18, rx: 9 }),
    svg("text", { class: "similarity", x, y: y + 4, "text-anchor": "middle" }, short(value)),
  ];
}

function node({ data, size, inside, places }, number) {
  const language = data.languages[number];
  const [x, y] = places.get(number);
  const low = data.graph.lrls.includes(number);
  const line = Math.max(size.radius / 8, 1.5);
  const turn = 2 * Math.PI * (size.radius - line / 2);
  const round = { cx: x, cy: y, r: size.radius - line / 2 };
  const top = { "stroke-width": line, transform: `rotate(-90 ${x} ${y})` }; // where the ring begins
  const ring = svg("circle", { class: `ring ${hue(language)}`, ...round, ...top });
  const beside = inside ? 0 : 8 * Math.min(language.name.length, 14);
  const value = svg("text", { class: "readiness", x: x + size.radius + 10 + beside, y: y + 4 });
  const away = size.radius + 6;
  const name = inside
    ? { x, "text-anchor": "middle" }
    : { x: low ? x + away : x - away, "text-anchor": low ? "start" : "end" };
  const group = svg(
    "g",
    { class: `node ${low ? "lrl" : "hrl"}${inside ? " inside" : ""}` },
    svg("circle", { class: `disc ${hue(language)}`, ...round, "stroke-width": line }),
    low ? ring : null,
    svg(
      "text",
      { class: "name", ...name, y: y + size.font * 0.35, "font-size": size.font },
      clipped(language.name, 14),
      svg("title", {}, language.name),
    ),
    low ? value : null,
  );
  const show = (i) => {
    const open = admittedAt(data, number, i);
    group.classList.toggle("open", open);
    if (!low) return "";
    const ready = i < 0 ? null : data.rounds.hrls_competence[number][i];
    const share = ready === null || !data.threshold ? 0 : Math.min(ready / data.threshold, 1);
    ring.setAttribute("stroke-dasharray", `${(share * turn).toFixed(1)} ${turn.toFixed(1)}`);
    value.textContent = ready === null ? "" : short(ready);
    return `${language.name} ${open ? "admitted" : "waiting"}${ready === null ? "" : `, ${short(ready)}`}`;
  };
  return { group, show };
}
