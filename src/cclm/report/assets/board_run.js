// The page of one run: its state, the graph and what happened, the curves, a table of languages, the scores.

const NEAR = 8; // languages in a list of movers

function runPage(id) {
  const drawing = document.getElementById("language-graph");
  const view = { data: null, search: "", sort: null, drawing, playhead: null, places: {} };
  const update = async () => {
    const known = view.data ? `?generation=${view.data.generation}&rows=${view.data.rounds.kept}` : "";
    const data = await ask(`/api/runs/${id}${known}`);
    data.rounds = joined(view.data, data);
    if (!view.drawing && data.graph) return location.reload(); // the graph has come after the page
    data.admissionOf = new Map(data.admissions.map((admission) => [admission.language, admission]));
    const first = view.data === null;
    view.data = data;
    if (first) frame(view);
    showRun(view);
  };
  return follow((changed) => changed === id, update, () => (view.data && view.data.languages.length > 60 ? 1500 : 700));
}

// New rows come after those that stay; within a generation the page has these already.
function joined(old, data) {
  const { rounds } = data;
  if (!old || old.generation !== data.generation || rounds.from === 0) return rounds;
  const before = (values, kept) => (Array.isArray(kept) ? kept.slice(0, rounds.from).concat(values) : values);
  return Object.fromEntries(Object.entries(rounds).map(([name, values]) => {
    if (!Array.isArray(values)) return [name, values];
    if (Array.isArray(values[0]) || Array.isArray(old.rounds[name][0])) {
      return [name, values.map((column, k) => before(column, old.rounds[name][k]))];
    }
    return [name, before(values, old.rounds[name])];
  }));
}

// The parts of the page that stay; `showRun` fills them.
function frame(view) {
  const place = (name, tag = "div", attributes = {}) => (view.places[name] = html(tag, attributes));
  const find = html("input", {
    type: "search", id: "find", placeholder: "find a language", "aria-label": "find a language",
    oninput: (event) => {
      view.search = event.target.value.trim().toLowerCase();
      marked(view);
      languageTable(view);
      view.playhead.notify();
    },
  });
  const figure = view.drawing
    ? html("figure", { class: "graph" }, view.drawing, place("caption", "figcaption"))
    : quiet("No language graph: graph.json is neither in the run nor in its work folder.");
  document.getElementById("page").replaceChildren(
    place("head", "header"),
    html(
      "div", { class: "stage" },
      section("graph", "Language graph", figure),
      section("events", "Events", html(
        "div", { class: "scroll", tabindex: "0", role: "log", "aria-label": "events, the newest first" },
        place("news", "ol", { class: "news-list" }),
      )),
    ),
    section("curves", "Training curves", place("hint", "p", { class: "quiet" }), place("curves", "div", { class: "grid" })),
    section("languages", "Languages", html("div", { class: "tools" }, find, place("count", "span", { class: "quiet" })),
      place("movers"), place("table")),
    place("scored"),
    place("timeline", "div", { class: "timeline" }),
  );
}

function showRun(view) {
  const { data, places } = view;
  const hovered = view.playhead && document.querySelector(".chart:hover") ? view.playhead.hovered : null;
  clearInterval(view.playhead && view.playhead.timer);
  const playing = view.playhead && view.playhead.timer !== null;
  view.playhead = createPlayhead(data);
  view.playhead.hovered = hovered === null ? null : Math.min(hovered, view.playhead.last);
  refill(places.head, head(data));
  news(places.news, data);
  if (view.drawing) {
    view.playhead.listeners.push(languageGraph(view.drawing.querySelector("svg"), data));
    places.caption.textContent = graphCaption(data);
  }
  const measured = data.rounds.steps.length > 0;
  refill(places.timeline, measured ? player(data, view.playhead) : null);
  curves(view, measured);
  movers(view, measured);
  languageTable(view);
  marked(view);
  refill(places.scored, data.scores ? section("scores", "Scores", scores(data)) : null);
  view.playhead.notify();
  view.playhead.listenToKeys(document);
  if (playing) places.timeline.querySelector("[aria-label=play]")?.click();
}

function head(data) {
  const { now } = data;
  const facts = [
    now.max_steps ? `step ${integer(now.step)} of ${integer(now.max_steps)}` : `step ${integer(now.step)}`,
    now.seconds_left === null ? null : now.seconds_left > 0 ? `${duration(now.seconds_left)} left at most` : "ending",
    now.tokens_per_second === null ? null : `${integer(now.tokens_per_second)} tokens/s`,
    data.summary.tokens ? `${large(data.summary.tokens)} target tokens` : null,
    `${integer(now.admitted)} of ${integer(data.languages.length)} ${data.pivot ? "directions" : "languages"} admitted`,
    now.best === null ? null : `best checkpoint: step ${integer(now.best)}`,
    now.is_read ? null : "still reading the log",
  ].filter(Boolean);
  const reason = now.state === "running" ? null : now.reason;
  return [
    html("p", { class: "kicker" }, "cclm run"),
    html("h1", {}, now.name),
    data.summary.method ? html("p", { class: "lead" }, data.summary.method) : null,
    html("p", { class: "facts-line", role: "status" }, pill(now.state), facts.map((fact) => html("span", {}, fact))),
    progress(now, "steps done"),
    reason ? html("p", { class: ENDED.has(now.state) ? "quiet" : "notice" }, `${STATES[now.state][1]}: ${reason}`) : null,
    now.command ? [quiet("This continues it from its last checkpoint:"), command(now.command)] : null,
    now.report ? html("p", {}, html("a", { href: `/runs/${now.id}/report` }, "report with translations")) : null,
  ].flat().filter(Boolean);
}

// The newest first; what is there already stays, so that a reader's place in the list is not lost.
function news(list, data) {
  const newest = gathered(data.news).slice(-300).reverse();
  const key = ({ step, text }) => `${step} ${text}`;
  const known = new Map([...list.children].map((item) => [item.dataset.key, item]));
  const items = newest.map((one) => known.get(key(one)) || html(
    "li", { class: one.kind, "data-key": key(one) },
    html("span", { class: "when" }, `step ${integer(one.step)}`), html("span", {}, one.text),
  ));
  const fresh = items.filter((item) => !known.has(item.dataset.key));
  if (known.size) fresh.forEach((item) => item.classList.add("fresh"));
  if (fresh.length || items.length !== known.size) list.replaceChildren(...items);
  if (!items.length) list.replaceChildren(html("li", {}, "Nothing yet: the first round of measurement comes soon."));
}

// Validations in a row share a line, so that admissions can be found; the last one has its own.
function gathered(all) {
  const found = [];
  for (const one of all) {
    const last = found[found.length - 1];
    if (last && last.kind === "validation" && one.kind === "validation") last.members.push(one);
    else found.push({ ...one, members: [one] });
  }
  return found.flatMap(({ members }) => {
    if (members.length < 4) return members;
    const [before, last] = [members.slice(0, -1), members[members.length - 1]];
    const least = before.reduce((a, b) => (b.loss < a.loss ? b : a));
    const text = `${before.length} validations since step ${integer(before[0].step)}: dev loss ${short(before[0].loss, 3)} to `
      + `${short(before[before.length - 1].loss, 3)}, lowest ${short(least.loss, 3)} at step ${integer(least.step)}`;
    return [{ ...before[before.length - 1], text }, last];
  });
}

function curves(view, measured) {
  const { data, playhead, places } = view;
  if (!measured) return refill(places.curves, quiet("No round has been measured yet."));
  const { steps, measured: all } = data.rounds;
  const thinned = all > steps.length ? ` Of ${integer(all)} rounds ${integer(steps.length)} are drawn.` : "";
  places.hint.textContent = "Point at a chart to read all of them off at that step. Left and right arrow keys move "
    + `through the rounds, with Shift from admission to admission.${thinned}`;
  const specs = [...charts(data), ...trainingCharts(data)].filter((spec) => spec.languages.length);
  const kept = new Map([...places.curves.children].map((figure) => [figure.id, figure]));
  const figures = specs.map((spec) => kept.get(spec.id) || html(
    "figure", { id: spec.id, class: "curve" }, html("h3", {}, spec.title), html("p", { class: "quiet" }),
    html("div", { class: "drawing" }),
  ));
  if (figures.length !== kept.size) places.curves.replaceChildren(...figures);
  const permanent = playhead.listeners.length; // those of charts are replaced with the charts
  const draw = () => {
    playhead.listeners.length = permanent;
    specs.forEach((spec, k) => {
      const [, note, holder] = figures[k].children;
      note.textContent = spec.note;
      holder.replaceChildren();
      playhead.listeners.push(fromFirstRound(chart(holder, data, spec, playhead)));
    });
    if (view.rows) playhead.listeners.push(view.rows);
  };
  draw();
  redraw = () => {
    draw();
    playhead.notify();
  };
}

// Charts of the training as a whole, and of what each language got of it.
function trainingCharts(data) {
  const { rounds } = data;
  const one = (id, title, note, columns, more) => {
    const who = columns.map(([name, , hue], k) => ({ name, hue, side: null, way: null, family: 8 * k, variant: 0 }));
    const table = columns.map(([, values]) => values || []);
    const languages = measured(table);
    return { id, title, note, table, who, languages, joins: true, noun: "curves", rule: null, powers: false,
      stacked: false, format: short, tick: brief, range: around(extent(table)), ...more };
  };
  const positive = (table) => [0, (extent(table)[1] || 1) * 1.08];
  const losses = [["train", rounds.train_loss, "h0"], ["dev", rounds.weighted, "h1"], ["dev, macro", rounds.macro, "h4"]];
  const rate = (value) => (value === null ? "–" : value.toExponential(1));
  const amount = (value) => (value === null ? "–" : value < 10000 ? integer(value) : `${integer(value / 1000)} k`);
  const passes = data.languages.map(({ tokens_per_pass: all }, k) =>
    rounds.tokens[k].map((tokens) => (all && tokens !== null ? tokens / all : null)));
  const perLanguage = one("passes", "Passes over the data", "How often the text of each language has been seen.",
    [], { table: passes, who: data.languages, languages: measured(passes), joins: false, noun: "languages" });
  return [
    one("losses", "Train and dev loss", "Bits per target token; dev: whole dev sets, weighted by their sizes or not.", losses),
    { ...perLanguage, range: positive(passes), format: (value) => short(value, 1) },
    one("rate", "Learning rate", "Of the optimizer.", [["rate", rounds.learning_rate, "h0"]],
      { range: positive([rounds.learning_rate]), format: rate, tick: (value) => (value ? rate(value) : "0"), left: 52 }),
    one("speed", "Target tokens per second", "Of the process that trains, between two lines of its clock.",
      [["tokens/s", rounds.tokens_per_second, "h2"]],
      { range: positive([rounds.tokens_per_second]), format: amount, tick: amount, left: 52 }),
  ];
}

// With very many languages: who has moved most lately, and who will be admitted next.
function movers(view, measured) {
  const { data, places } = view;
  const last = data.rounds.steps.length - 1;
  if (!measured || data.languages.length <= MANY || last < 1) return refill(places.movers);
  const before = Math.max(0, last - Math.max(1, Math.round(last / 10)));
  const moved = data.languages.map(({ name }, k) => {
    const [then, now] = [data.rounds.competence[k][before], data.rounds.competence[k][last]];
    return then === null || now === null ? null : [name, now - then, now];
  }).filter(Boolean).sort((a, b) => b[1] - a[1]);
  const waiting = data.languages.map(({ name }, k) => [name, data.admissionOf.has(k) ? null : data.rounds.hrls_competence[k][last]])
    .filter(([, value]) => value !== null).sort((a, b) => b[1] - a[1]);
  const signed = (value) => `${value < 0 ? "−" : "+"}${short(Math.abs(value))}`;
  const list = (title, rows) => (rows.length ? html(
    "div", {}, html("h3", {}, title),
    html("ul", { class: "movers" }, rows.map(([name, value]) => html("li", {}, html("span", {}, name), html("span", {}, value)))),
  ) : null);
  const since = `since step ${integer(data.rounds.steps[before])}`;
  refill(places.movers, html(
    "div", { class: "mover-lists" },
    list(`Competence rose most ${since}`, moved.slice(0, NEAR).map(([name, change]) => [name, signed(change)])),
    list("rose least, or fell", moved.slice(-NEAR).reverse().map(([name, change]) => [name, signed(change)])),
    list("Next to be admitted", waiting.slice(0, NEAR).map(([name, ready]) =>
      [name, `${short(ready)}${data.threshold === null ? "" : ` of ${data.threshold}`}`])),
  ));
}

const found = (view, { name }) => view.search !== "" && name.toLowerCase().includes(view.search);

// Underlines in the graph what is searched for, and brings its curves to the front.
function marked(view) {
  const { data, drawing } = view;
  const hits = new Set(data.languages.map((language, k) => (found(view, language) ? k : -1)));
  for (const node of drawing ? drawing.querySelectorAll(".node") : []) {
    const hit = node.dataset.tasks.split(" ").some((number) => hits.has(Number(number)));
    node.querySelector(".name").classList.toggle("found", hit);
    node.classList.toggle("pale", view.search !== "" && !hit);
  }
  const names = new Set(data.languages.filter((language) => found(view, language)).map(({ name }) => name));
  for (const path of view.places.curves.querySelectorAll(".many .line, .many .band")) {
    path.classList.toggle("marked", names.size > 0 && names.size <= MANY && names.has(path.querySelector("title").textContent));
  }
}

const share = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)}\u00a0%`);

// The columns of the table: title, value of language k at round i, and how it is written.
function columnsOf(data) {
  const at = (table, k, i) => (i < 0 ? null : data.rounds[table][k][i]);
  const total = (table, i) => data.languages.reduce((sum, _, k) => sum + (at(table, k, i) || 0), 0);
  return [
    ["admitted at", (k) => data.admissionOf.get(k)?.step ?? null, (value) => (value === null ? "waiting" : value ? integer(value) : "start")],
    ["competence", (k, i) => at("competence", k, i), (value) => short(value)],
    ["HRLs-evaluated", (k, i) => at("hrls_competence", k, i), (value) => short(value)],
    ["weight", (k, i) => at("weights", k, i), share],
    ["share of draws", (k, i) => (total("draws", i) ? (at("draws", k, i) || 0) / total("draws", i) : null), share],
    ["passes", (k, i) => (data.languages[k].tokens_per_pass && at("tokens", k, i) !== null
      ? at("tokens", k, i) / data.languages[k].tokens_per_pass : null), (value) => short(value, 1)],
    ["dev loss", (k, i) => at("dev_loss", k, i), (value) => short(value)],
    ["L*", (k) => data.languages[k].benchmark, (value) => short(value)],
    ["BLEU", (k) => data.languages[k].scores?.bleu ?? null, (value) => short(value, 1)],
  ];
}

function languageTable(view) {
  const { data, places } = view;
  const last = data.rounds.steps.length - 1;
  const columns = columnsOf(data).filter(([, value]) => data.languages.some((_, k) => value(k, last) !== null));
  const order = data.languages.map((_, k) => k).filter((k) => view.search === "" || found(view, data.languages[k]));
  if (view.sort) {
    const column = columns.find(([title]) => title === view.sort.title);
    const value = (k) => (column ? column[1](k, last) : data.languages[k].name);
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    const missing = (k) => value(k) === null;
    order.sort((a, b) => missing(a) - missing(b) || view.sort.way * compare(value(a), value(b)));
  }
  places.count.textContent = view.search ? `${order.length} of ${data.languages.length}` : "";
  const heads = ["language", ...columns.map(([title]) => title)].map((title, n) => sortable(view, title, n > 0));
  const rows = order.map((k) => {
    const language = data.languages[k];
    const cells = columns.map(() => html("td", { class: "number" }));
    const side = { hrl: "HRL", lrl: "LRL" }[language.side] || "";
    return { k, cells, row: html("tr", {}, html("th", { scope: "row" }, swatch(language), language.name, html("span", { class: "side" }, side)), cells) };
  });
  const groups = view.sort ? [["", rows]] : [["hrl", "high-resource"], ["lrl", "low-resource"], [null, ""]].map(
    ([side, title]) => [title, rows.filter(({ k }) => data.languages[k].side === side)],
  );
  const bodies = groups.filter(([, members]) => members.length).map(([title, members]) => html(
    "tbody", {},
    title ? html("tr", { class: "group" }, html("th", { colspan: String(columns.length + 1), scope: "rowgroup" }, title)) : null,
    members.map(({ row }) => row),
  ));
  const box = {
    class: data.languages.length > 24 ? "wide tall" : "wide", tabindex: "0", role: "region", "aria-label": "every language",
  };
  const scrolled = places.table.firstElementChild?.scrollTop || 0;
  refill(places.table, html("div", box, html("table", { class: "by-language" }, html("thead", {}, html("tr", {}, heads)), bodies)));
  places.table.firstElementChild.scrollTop = scrolled;
  const show = (i) => {
    for (const { k, cells, row } of rows) {
      columns.forEach(([, value, written], n) => (cells[n].textContent = written(value(k, i))));
      row.classList.toggle("waiting", !admittedAt(data, k, i));
    }
  };
  const at = view.playhead.listeners.indexOf(view.rows);
  if (at >= 0) view.playhead.listeners[at] = show;
  else view.playhead.listeners.push(show);
  view.rows = show;
}

function sortable(view, title, isNumber) {
  const way = view.sort && view.sort.title === title ? view.sort.way : 0;
  const sort = () => {
    view.sort = way === (isNumber ? 1 : -1) ? null : { title, way: way ? -way : isNumber ? -1 : 1 };
    languageTable(view);
    view.playhead.notify();
  };
  const sign = html("span", { "aria-hidden": "true" }, way ? (way > 0 ? " ↑" : " ↓") : "");
  const attributes = {
    scope: "col", class: isNumber ? "number" : null, "aria-sort": way ? (way > 0 ? "ascending" : "descending") : null,
  };
  return html("th", attributes, html("button", { type: "button", onclick: sort }, title, sign));
}
