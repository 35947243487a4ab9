// The page. `draw(data)` draws everything from one object, and may be called again with a newer one.

let redraw = null; // what to do when the window changes, or nothing
let standing = null; // the step at which the reader left the slider; null at the end, where new rounds are followed
let listening = new AbortController();

function draw(data) {
  const page = document.getElementById("page");
  data.arrival = new Map(data.admissions.map((admission) => [admission.language, admission]));
  const moment = moments(data);
  const drawings = [];
  page.replaceChildren(
    html("header", {}, html("p", { class: "kicker" }, "cclm run"), html("h1", {}, data.name), html("p", { class: "lead" }, summary(data))),
    section("graph", "Who took part, and when", graphSection(data, moment, drawings)),
    section("curves", "How it went", curvesSection(data, moment, drawings)),
    section("scores", "Scores", data.scores ? scores(data) : [quiet("No scores yet.")]),
    section("admissions", "Why each language was admitted", data.admissions.length ? admissions(data) : [quiet("No admissions yet.")]),
    section("translations", "Translations to read", data.translations.length ? translations(data) : [quiet("No translations yet.")]),
    section("run", "What was run", [html("details", {}, html("summary", {}, "Settings, versions and data"), whatWasRun(data))]),
  );
  const all = () => {
    moment.shows.length = moment.fixed;
    for (const { holder, make } of drawings) {
      holder.replaceChildren();
      moment.shows.push(make(holder));
    }
    moment.tell();
  };
  moment.fixed = moment.shows.length;
  all();
  redraw = all;
  moment.keys(document);
}

function section(id, title, content) {
  return html("section", { id, "aria-labelledby": `${id}-title` }, html("h2", { id: `${id}-title` }, title), content);
}

// The moment that the graph and all charts show: where the slider stands, or what a pointer hovers over.
// Round -1 is the start, before anything was measured.
function moments(data) {
  const last = data.rounds.steps.length - 1;
  const first = last >= 0 && data.rounds.steps[0] === 0 ? 0 : -1;
  const left = standing === null ? -1 : data.rounds.steps.findIndex((step) => step >= standing);
  const at = standing === 0 ? first : left < 0 ? last : left;
  const moment = { first, last, at, hovered: null, shows: [], fixed: 0, timer: null };
  moment.tell = () => moment.shows.forEach((show) => show(moment.hovered === null ? moment.at : moment.hovered));
  moment.hover = (i) => {
    moment.hovered = i;
    moment.tell();
  };
  moment.go = (i) => {
    moment.at = Math.max(first, Math.min(last, i));
    standing = moment.at === last ? null : stepAt(data, moment.at);
    moment.tell();
  };
  // From one admission to the next or the one before.
  moment.jump = (way) => {
    const late = data.admissions.map((admission) => data.rounds.steps.findIndex((step) => step >= admission.step));
    const stops = [first, ...late.filter((i) => i >= 0), last].sort((a, b) => way * (a - b));
    moment.go(stops.find((i) => way * (i - moment.at) > 0) ?? moment.at);
  };
  moment.keys = (target) => {
    listening.abort(); // those of an older drawing
    listening = new AbortController();
    target.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way || event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.("input, pre, .wide")) return;
      event.preventDefault();
      if (event.shiftKey) moment.jump(way);
      else moment.go(moment.at + way);
    }, { signal: listening.signal });
  };
  return moment;
}

function graphSection(data, moment, drawings) {
  if (!data.graph) return [quiet("No language graph here: graph.json is neither in the run nor two folders above it.")];
  const holder = html("div", { class: "drawing" });
  drawings.push({ holder, make: (into) => languageGraph(into, data) });
  const readable = "Strong lines come from the nearest HRL, with the similarity. A ring closes as the HRLs-evaluated competence, "
    + "written beside it, nears the threshold; a filled disc takes part.";
  const absent = data.graph.absent ? ` ${whole(data.graph.absent)} more languages, less alike, are not drawn.` : "";
  const figure = html("figure", {}, holder, data.rounds.steps.length ? player(data, moment) : null, html("figcaption", {}, readable + absent));
  return [figure, data.rounds.steps.length ? null : quiet("No round measured yet.")];
}

function icon(path) {
  return svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, svg("path", { d: path }));
}

const ICONS = { back: "M11 3L5 8l6 5z", on: "M5 3l6 5-6 5z", play: "M4 2l9 6-9 6z", pause: "M4 3h3v10H4zM9 3h3v10H9z" };

function player(data, moment) {
  const { first, last } = moment;
  const slider = html("input", {
    type: "range", min: String(first), max: String(last), value: String(last), "aria-label": "round of measurement",
    oninput: (event) => moment.go(Number(event.target.value)),
  });
  const step = html("output", { class: "step" });
  const news = html("p", { class: "news", "aria-live": "polite" });
  const play = html("button", { type: "button", "aria-label": "play", onclick: () => run(moment.timer === null) }, icon(ICONS.play));
  function run(on) {
    clearInterval(moment.timer);
    moment.timer = null;
    if (on) {
      if (moment.at === last) moment.go(first);
      const pace = Math.max(30, Math.min(600, 12000 / (last - first + 1)));
      moment.timer = setInterval(() => (moment.at < last && play.isConnected ? moment.go(moment.at + 1) : run(false)), pace);
    }
    play.replaceChildren(icon(on ? ICONS.pause : ICONS.play));
    play.setAttribute("aria-label", on ? "pause" : "play");
  }
  moment.shows.push((i) => {
    slider.value = String(i);
    slider.setAttribute("aria-valuetext", `step ${whole(stepAt(data, i))}`);
    step.textContent = `step ${whole(stepAt(data, i))}`;
    const text = newsAt(data, i, first);
    if (news.textContent !== text) news.textContent = text;
  });
  const button = (label, path, action) => html("button", { type: "button", "aria-label": label, onclick: action }, icon(path));
  const buttons = [button("previous round", ICONS.back, () => moment.go(moment.at - 1)), play, button("next round", ICONS.on, () => moment.go(moment.at + 1))];
  return html("div", { class: "player" }, html("div", { class: "controls" }, buttons, html("div", { class: "track" }, marks(data, first, last), slider), step), news);
}

function marks(data, first, last) {
  const at = data.admissions.filter(({ step }) => step > 0).map(({ step }) => data.rounds.steps.findIndex((reached) => reached >= step));
  const percent = (i) => `${((100 * (i - first)) / Math.max(last - first, 1)).toFixed(2)}%`;
  const found = [...new Set(at)].filter((i) => i >= 0);
  return svg("svg", { class: "marks", width: "100%", height: 6, "aria-hidden": "true" }, found.map((i) => svg("line", { x1: percent(i), x2: percent(i), y1: 0, y2: 6 })));
}

function newsAt(data, i, first) {
  const before = i <= first ? -1 : stepAt(data, i - 1);
  const new_ = data.admissions.filter(({ step }) => step > before && step <= stepAt(data, i) && step > 0);
  const names = new_.map(({ language }) => data.languages[language].name);
  const inside = data.admissions.filter(({ step }) => step <= stepAt(data, i)).length;
  if (names.length) return `${names.length > 8 ? `${names.length} languages` : listed(names)} admitted`;
  return `${inside} of ${data.languages.length} languages take part`;
}

function curvesSection(data, moment, drawings) {
  if (!data.rounds.steps.length) return [quiet("No round measured yet.")];
  const figures = charts(data).filter((spec) => spec.languages.length).map((spec) => {
    const holder = html("div", { class: "drawing" });
    drawings.push({ holder, make: (into) => hoverable(chart(into, data, spec, moment)) });
    return html("figure", { id: spec.id, class: "curve" }, html("h3", {}, spec.title), html("p", { class: "quiet" }, spec.note), holder);
  });
  const { steps, measured } = data.rounds;
  const thinned = measured > steps.length ? ` Of ${whole(measured)} rounds ${whole(steps.length)} are drawn.` : "";
  const many = data.languages.length > MANY ? " Strong lines are medians; point at a line for its name." : " Dashed lines are LRLs, in the hue of the nearest HRL.";
  return [quiet(`Thin upright lines mark admissions. Left and right arrow keys move through the rounds, with Shift from admission to admission.${many}${thinned}`), figures];
}

const hoverable = (show) => (i) => show(Math.max(i, 0));

function charts(data) {
  const { competence, hrls_competence: ready, weights, dev_loss: loss } = data.rounds;
  const known = (table) => table.map((values, i) => (values.some((value) => value !== null) ? i : -1)).filter((i) => i >= 0);
  const extent = (table) => {
    let [low, high] = [Infinity, -Infinity];
    for (const values of table) for (const value of values) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return [low, high];
  };
  const top = extent(competence)[1];
  const fraction = (value) => (value >= 1 || value === 0 ? String(value) : value >= 0.1 ? String(Number(value.toPrecision(3))) : `1/${Math.round(1 / value)}`);
  const percent = (value) => `${Math.round(value * 100)} %`;
  const common = { rule: null, say: short, tick: String, powers: false, stacked: false };
  const threshold = data.threshold === null ? null : { value: data.threshold, label: `threshold ${data.threshold}` };
  return [
    { ...common, id: "competence", title: "Competence", table: competence, languages: known(competence), powers: top > 2.5, tick: top > 2.5 ? fraction : String,
      note: "How well each language has been learned; 1 is as well as by its own bitext model.", rule: { value: 1, label: "c = 1, the bitext model" },
      range: () => (top > 2.5 ? [1 / 8, Math.max(2, top * 1.05)] : [0, Math.max(1.1, top * 1.05)]) },
    { ...common, id: "hrls-competence", title: "HRLs-evaluated competence", table: ready, languages: known(ready), rule: threshold,
      note: "How ready each low-resource language is, by the competence of the high-resource languages like it.",
      range: () => [0, Math.max(1, (data.threshold || 0) * 1.05, extent(ready)[1] * 1.05)] },
    { ...common, id: "weights", title: "Sampling weights", table: weights, languages: known(weights), stacked: true, tick: percent, say: (value) => (value === null ? "–" : percent(value)),
      note: "The share of training that each language gets.", range: () => [0, 1] },
    { ...common, id: "dev-loss", title: "Dev loss", table: loss, languages: known(loss), note: "Bits a target token, on the probe's sentences.",
      range: () => { const [low, high] = extent(loss); return [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)]; } },
  ];
}

window.addEventListener("error", (event) => {
  document.body.append(html("p", { class: "error", role: "alert" }, `This page could not be drawn in full: ${event.message}`));
});

let resizing = null;
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  if (window.innerWidth === drawnWidth) return; // on phones the bar of the browser comes and goes
  resizing = setTimeout(() => {
    drawnWidth = window.innerWidth;
    if (redraw) redraw();
  }, 120);
});

const embedded = document.getElementById("run-data");
if (embedded) draw(JSON.parse(embedded.textContent));
