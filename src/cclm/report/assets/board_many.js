// The pages over many runs: the overview of a folder, a comparison, a study or a sweep.

function overviewPage() {
  const chosen = new Set();
  const page = document.getElementById("page");
  const view = { search: "", data: null };
  const [top, groups, tools, table] = [html("header"), html("div"), html("div", { class: "tools" }), html("div")];
  const compare = html("a", { class: "button", href: "/compare" }, "compare");
  const find = html("input", {
    type: "search", id: "find", placeholder: "find a run", "aria-label": "find a run",
    oninput: (event) => {
      view.search = event.target.value.trim().toLowerCase();
      show();
    },
  });
  tools.append(find, compare);
  page.replaceChildren(top, groups, section("runs", "Runs", tools, table));
  function choose() {
    compare.href = `/compare?${[...chosen].map((id) => `run=${id}`).join("&")}`;
    compare.textContent = chosen.size ? `compare ${chosen.size} ${chosen.size === 1 ? "run" : "runs"}` : "compare runs";
  }
  function show() {
    const { folder, runs, groups: found, more_runs: more } = view.data;
    refill(top, html("p", { class: "kicker" }, "cclm board"), html("h1", {}, folder), html("p", { class: "lead" }, counts(runs)),
      more ? quiet(`${integer(more)} more runs are not followed: give a folder further down.`) : null);
    refill(groups, found.length ? section("groups", "Studies and sweeps", html("ul", { class: "cards" }, found.map(card))) : null);
    const rows = runs.filter(({ name }) => name.toLowerCase().includes(view.search)).sort(byState);
    refill(table, rows.length ? runTable(rows, chosen, choose) : quiet(runs.length ? "No run is called that." : "No runs here yet: they appear when a training starts."));
    choose();
  }
  return follow(() => true, async () => {
    view.data = await ask("/api/overview");
    show();
  }, () => 900);
}

const RANKS = ["running", "failed", "damaged", "interrupted", "waiting", "finished", "bitext system"];

function byState(a, b) {
  return RANKS.indexOf(a.state) - RANKS.indexOf(b.state) || a.name.localeCompare(b.name, "en", { numeric: true });
}

function counts(runs) {
  const states = RANKS.map((state) => [runs.filter((run) => run.state === state).length, STATES[state][1]]);
  const said = states.filter(([number]) => number).map(([number, word]) => `${integer(number)} ${word}`);
  return runs.length ? `${integer(runs.length)} ${runs.length === 1 ? "run" : "runs"}: ${said.join(", ")}.` : "No runs yet.";
}

function card(group) {
  const states = RANKS.map((state) => [state, group.trials.filter((trial) => trial.state === state).length]);
  return html(
    "li", { class: "card" },
    html("p", { class: "kicker" }, group.kind),
    html("h3", {}, html("a", { href: `/groups/${group.id}` }, group.name)),
    html("p", { class: "quiet" }, states.filter(([, n]) => n).map(([state, n]) => html("span", { class: "count" }, pill(state), ` ${n}`))),
    group.problem ? html("p", { class: "notice" }, group.problem) : null,
    html("div", { class: "cells", "aria-hidden": "true" }, group.trials.slice(0, 200).map(({ state }) => html("span", { class: `cell ${stateClass(state)}` }))),
  );
}

function spark(values) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return null;
  const x = scale(0, values.length - 1, 1, 79);
  const y = scale(Math.min(...known), Math.max(...known), 21, 3);
  const points = values.map((value, i) => (value === null ? null : `${x(i).toFixed(1)} ${y(value).toFixed(1)}`)).filter(Boolean);
  return svg("svg", { class: "spark", viewBox: "0 0 80 24", width: 80, height: 24, "aria-hidden": "true" },
    svg("path", { class: "line h0", d: `M${points.join("L")}` }));
}

function runTable(runs, chosen, choose) {
  const titles = ["", "run", "state", "steps", "", "left", "admitted", "dev loss", "", "BLEU"];
  const heads = titles.map((title, n) => (title
    ? html("th", { scope: "col", class: n > 4 && n !== 8 ? "number" : null }, title) : html("td", { class: "no-head" })));
  const rows = runs.map((run) => {
    const box = html("input", {
      type: "checkbox", "aria-label": `compare ${run.name}`,
      onchange: (event) => {
        if (event.target.checked) chosen.add(run.id);
        else chosen.delete(run.id);
        choose();
      },
    });
    box.checked = chosen.has(run.id);
    const steps = run.max_steps ? `${integer(run.step)} of ${integer(run.max_steps)}` : integer(run.step);
    const reason = ["failed", "damaged"].includes(run.state) ? html("div", { class: "reason" }, run.reason) : null;
    return html(
      "tr", {},
      html("td", { class: "choose" }, run.state === "bitext system" ? null : box),
      html("th", { scope: "row" }, run.state === "bitext system" ? run.name : html("a", { href: `/runs/${run.id}` }, run.name), reason),
      html("td", {}, pill(run.state)),
      html("td", { class: "steps" }, run.state === "bitext system" ? "" : steps),
      html("td", { class: "bar-cell" }, run.state === "bitext system" ? null : progress(run, `steps of ${run.name}`)),
      html("td", { class: "number" }, run.seconds_left === null ? "" : duration(run.seconds_left)),
      html("td", { class: "number" }, run.languages ? `${run.admitted}/${run.languages}` : ""),
      html("td", { class: "number" }, run.dev_loss === null ? "" : short(run.dev_loss, 3)),
      html("td", {}, spark(run.spark)),
      html("td", { class: "number" }, run.bleu ? short(run.bleu.all, 1) : ""),
    );
  });
  const table = html("table", { class: "runs" }, html("thead", {}, html("tr", {}, heads)), html("tbody", {}, rows));
  return html("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "runs" }, table);
}

const WHATS = [
  ["weighted", "dev loss at validations, weighted"], ["macro", "dev loss at validations, mean over languages"],
  ["dev_loss", "dev loss of the probes", true], ["competence", "competence", true],
  ["hrls_competence", "HRLs-evaluated competence", true], ["weights", "sampling weight", true],
  ["passes", "passes over the data", true], ["admitted", "admitted languages"], ["train_loss", "train loss"],
  ["bleu", "BLEU on dev"], ["learning_rate", "learning rate"], ["tokens_per_second", "tokens per second"],
];
const MOST_STEPS_COMPARED = 400;

function comparePage() {
  const query = new URLSearchParams(location.search);
  const view = { ids: query.getAll("run"), what: query.get("what") || "dev_loss", language: query.get("language") || "" };
  const page = document.getElementById("page");
  const holder = html("div", { class: "drawing" });
  const [list, note] = [html("div", { class: "compared" }), html("p", { class: "quiet" })];
  const option = (value, text, now) => html("option", { value, selected: value === now ? "" : false }, text);
  const what = html("select", { id: "what", onchange: (event) => change({ what: event.target.value }) },
    WHATS.map(([value, text]) => option(value, text, view.what)));
  const language = html("select", { id: "language", onchange: (event) => change({ language: event.target.value }) });
  const field = (label, control) => html("label", { for: control.id }, label, " ", control);
  page.replaceChildren(
    html("header", {}, html("p", { class: "kicker" }, "cclm board"), html("h1", {}, "Comparison")),
    section("chart", "Curves", html("div", { class: "tools" }, field("curve", what), field("language", language)),
      html("figure", { id: "compared", class: "curve" }, note, holder)),
    section("choice", "Runs", list),
  );
  function change(more) {
    Object.assign(view, more);
    const address = new URLSearchParams([["what", view.what], ["language", view.language], ...view.ids.map((id) => ["run", id])]);
    history.replaceState(null, "", `/compare?${address}`);
    update();
  }
  async function update() {
    const { runs: every } = await ask("/api/overview");
    const ids = view.ids.map((id) => `&run=${encodeURIComponent(id)}`).join("");
    const of = WHATS.find(([value]) => value === view.what)?.[2] && view.language ? `&language=${encodeURIComponent(view.language)}` : "";
    const { runs } = await ask(`/api/series?what=${encodeURIComponent(view.what)}${of}${ids}`);
    const names = [...new Set(runs.flatMap((run) => run.languages))];
    language.disabled = !WHATS.find(([value]) => value === view.what)?.[2];
    refill(language, option("", "mean over languages", view.language), names.map((name) => option(name, name, view.language)));
    compareRuns(view, runs, holder, note);
    redraw = () => compareRuns(view, runs, holder, note);
    refill(list, choices(every, view, (id, on) => change({ ids: on ? [...view.ids, id] : view.ids.filter((one) => one !== id) })));
  }
  return follow((id) => view.ids.includes(id), update, () => 1200);
}

function choices(every, view, change) {
  const runs = every.filter((run) => run.state !== "bitext system").sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return html("ul", { class: "choices" }, runs.map((run) => {
    const box = html("input", {
      type: "checkbox", id: `run-${run.id}`, onchange: (event) => change(run.id, event.target.checked),
    });
    box.checked = view.ids.includes(run.id);
    const facts = run.dev_loss === null ? "" : `dev loss ${short(run.dev_loss, 3)}`;
    return html("li", {}, box, html("label", { for: `run-${run.id}` }, run.name), pill(run.state), html("span", { class: "quiet" }, facts),
      html("a", { href: `/runs/${run.id}`, "aria-label": `open ${run.name}` }, "open"));
  }));
}

// Runs have steps of their own: every curve is read off at the same evenly spaced ones.
function compareRuns(view, runs, holder, note) {
  const drawn = runs.filter(({ values }) => values.some((value) => value !== null));
  holder.replaceChildren();
  if (!drawn.length) {
    note.textContent = view.ids.length ? "None of these runs has such a curve." : "Choose the runs below.";
    return;
  }
  const title = WHATS.find(([value]) => value === view.what)[1];
  const per = WHATS.find(([value]) => value === view.what)[2];
  note.textContent = `${title}${per ? `, ${view.language || "mean over languages"}` : ""}; ${drawn.length} of ${runs.length} runs.`;
  const last = Math.max(...drawn.map(({ steps }) => steps[steps.length - 1]));
  const every = [...new Set(drawn.flatMap(({ steps }) => steps))].sort((a, b) => a - b);
  const thin = Math.ceil(every.length / MOST_STEPS_COMPARED);
  const steps = every.filter((_, i) => i % thin === 0 || i === every.length - 1);
  const table = drawn.map((run) => resampled(run, steps));
  const who = drawn.map(({ now }, k) => ({ name: now.name, hue: `h${k % 8}`, side: null, way: null, family: k, variant: 0 }));
  const [low, high] = extent(table);
  const room = (high - low) * 0.06 || Math.abs(high) * 0.06 || 1;
  const spec = {
    id: "compared", title, note: "", table, who, languages: who.map((_, k) => k), joins: true, noun: "runs", rule: null,
    powers: false, stacked: false, left: 52, height: 380, range: [Math.max(low - room, low >= 0 ? 0 : -Infinity), high + room],
    format: (value) => (value !== null && Math.abs(value) < 0.01 && value !== 0 ? value.toExponential(1) : short(value, Math.abs(high) < 10 ? 3 : 1)),
    tick: (value) => (value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(0) : brief(value)),
  };
  const shows = [];
  const playhead = { hover: (i) => shows.forEach((show) => show(i === null ? steps.length - 1 : i)) };
  const data = { languages: [], admissions: [], rounds: { steps: last > 0 ? steps : [0] } };
  shows.push(chart(holder, data, spec, playhead));
  playhead.hover(null);
}

function resampled({ steps, values }, wanted) {
  let place = -1;
  return wanted.map((step) => {
    while (place + 1 < steps.length && steps[place + 1] <= step) place++;
    return place < 0 || step > steps[steps.length - 1] ? null : values[place];
  });
}

function groupPage(id) {
  const page = document.getElementById("page");
  const [top, states, results] = [html("header"), html("div"), html("div", { class: "results" })];
  page.replaceChildren(top, states, results);
  let shown = null;
  return follow(() => true, async () => {
    const group = await ask(`/api/groups/${id}`);
    refill(top, html("p", { class: "kicker" }, `cclm ${group.kind}`), html("h1", {}, group.name),
      group.lead ? html("p", { class: "lead" }, group.lead) : null,
      group.problem ? html("p", { class: "notice" }, group.problem) : null,
      group.report ? html("p", {}, html("a", { href: `/groups/${id}/report` }, "complete report")) : null);
    refill(states, section("trials", group.kind === "sweep" ? "Leaves" : "Trials", matrix(group)));
    const sections = JSON.stringify(group.sections);
    if (sections !== shown) refill(results, group.sections.map((one) => documentSection(id, one)));
    shown = sections;
  }, () => 1200);
}

function matrix({ kind, trials }) {
  if (!trials.length) return quiet("No trial has begun yet.");
  const [arms, seeds] = ["arm", "seed"].map((name) => [...new Set(trials.map((trial) => trial[name]))]);
  const at = new Map(trials.map((trial) => [JSON.stringify([trial.arm, trial.seed]), trial]));
  const link = (of, text, label) => {
    const ids = trials.filter((trial) => of(trial) && trial.run).map(({ run }) => `run=${run}`);
    return ids.length > 1 ? html("a", { href: `/compare?${ids.join("&")}`, "aria-label": label }, text) : text;
  };
  const heads = seeds.map((seed) => html("th", { scope: "col" },
    link((trial) => trial.seed === seed, `${kind === "sweep" ? "" : "seed "}${seed}`, `compare all of ${seed}`)));
  const rows = arms.map((arm) => html(
    "tr", {}, html("th", { scope: "row" }, link((trial) => trial.arm === arm, arm, `compare all of ${arm}`)),
    seeds.map((seed) => html("td", {}, trialCell(at.get(JSON.stringify([arm, seed]))))),
  ));
  const table = html("table", { class: "matrix" }, html("thead", {}, html("tr", {}, html("td", {}), heads)), html("tbody", {}, rows));
  const failed = trials.filter(({ why }) => why);
  return [
    html("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "state of each trial" }, table),
    quiet("A name or a seed compares its runs in one chart."),
    failed.length ? html("ul", { class: "failures" }, failed.map(({ arm, seed, why }) => html("li", {}, html("strong", {}, `${arm}, ${seed}`), `: ${why}`))) : null,
  ];
}

function trialCell(trial) {
  if (!trial) return "";
  const left = trial.seconds_left === null || trial.seconds_left === undefined ? null : duration(trial.seconds_left);
  const going = trial.state === "running" && trial.max_steps ? `${Math.round((100 * trial.step) / trial.max_steps)} %${left ? `, ${left}` : ""}` : null;
  const score = trial.bleu === null || trial.bleu === undefined ? null : `${short(trial.bleu, 1)} BLEU`;
  const inside = [pill(trial.state), html("span", { class: "quiet" }, going || score || "")];
  return trial.run ? html("a", { class: "trial", href: `/runs/${trial.run}` }, inside) : html("span", { class: "trial" }, inside);
}

function documentSection(id, { id: name, title, blocks }) {
  return section(name, title, blocks.map((block) => {
    if (block.kind === "paragraph") return html("p", { class: block.strong ? "claim" : null }, block.text);
    if (block.kind === "figure") {
      const pictures = block.figures.map((n) => html("img", { src: `/groups/${id}/figures/${n}`, alt: block.title }));
      return html("figure", {}, html("div", { class: "drawings" }, pictures), html("figcaption", {}, block.caption));
    }
    return documentTable(block);
  }));
}

function documentTable({ caption, head: titles, rows, note, words }) {
  const kind = (n) => (words.includes(n) ? "words" : "number");
  const cell = ({ text, best, mark }, n) => html(
    n ? "td" : "th", { scope: n ? null : "row", class: `${kind(n)}${best ? " strong" : ""}${words.includes(n) && text.length > 36 ? " long" : ""}` },
    text, mark ? html("sup", {}, mark) : null,
  );
  const table = html("table", {},
    html("thead", {}, html("tr", {}, titles.map((title, n) => html("th", { scope: "col", class: kind(n) }, title)))),
    html("tbody", {}, rows.map((row) => html("tr", {}, row.map(cell)))));
  const box = { class: rows.length > 40 ? "wide tall" : "wide", tabindex: "0", role: "region", "aria-label": caption };
  return html("div", { class: "tabled" }, html("h3", {}, caption), html("div", box, table), note ? quiet(note) : null);
}
