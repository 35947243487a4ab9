// The sections of text and tables: summary, scores, admissions, translations, settings.

function summary(data) {
  const { method, steps, tokens, stopped, phase, benchmark_tokens: forLosses } = data.summary;
  const amount = `${integer(steps)} steps${tokens ? ` and ${large(tokens)} target tokens` : ""}`;
  const end = stopped
    ? `stopped at step ${integer(stopped.step)}${stopped.reason ? `: ${stopped.reason}` : ""}`
    : "still running or interrupted";
  const best = stopped && stopped.best !== null ? `; best checkpoint: step ${integer(stopped.best)}` : "";
  const second = phase === null ? "" : `; second phase from step ${integer(phase)}`;
  const share = forLosses && tokens ? `, ${Math.round((100 * forLosses) / tokens)} % of this training` : "";
  const cost = forLosses ? ` The reference losses L* took ${large(forLosses)} target tokens${share}.` : "";
  return `${method ? `${method}. ` : ""}${amount}; ${end}${best}${second}.${cost}`;
}

const quiet = (text) => html("p", { class: "quiet" }, text);

function swatch(language) {
  const ends = { x1: 0, x2: 18, y1: 6, y2: 6 };
  const line = svg("line", { class: `line ${language.hue}`, ...ends, "stroke-dasharray": dash(language) });
  return svg("svg", { class: "swatch", viewBox: "0 0 18 12", width: 18, height: 12, "aria-hidden": "true" }, line);
}

function scores(data) {
  if (!data.scores) return quiet("No scores yet.");
  const scored = data.languages.filter((language) => language.scores);
  const groups = [
    ["high-resource", scored.filter(({ side }) => side === "hrl")],
    ["low-resource", scored.filter(({ side }) => side === "lrl")],
    ["", scored.filter(({ side }) => side === null)],
    ["zero-shot: pairs not trained on, not part of the means", data.scores.zero_shot],
    ["not scored: no test set, not part of the means", data.scores.left_out],
  ].filter(([, rows]) => rows.length);
  const rows = groups.flatMap(([, members]) => members);
  const columns = scoreColumns(data, rows);
  const longest = Math.max(1, ...rows.map(({ scores: s }) => Math.max(s?.bleu || 0, s?.bleu_high || 0)));
  const head = html(
    "tr", {}, html("th", { scope: "col" }, "language"), html("th", { scope: "col", colspan: "2" }, "BLEU"),
    columns.map(({ title }) => html("th", { scope: "col", class: "number" }, title)),
  );
  const body = groups.map(([title, members]) => {
    const cell = html("th", { colspan: String(columns.length + 3), scope: "rowgroup" }, title);
    const lines = members.map((row) => scoreRow(row, longest, columns));
    return html("tbody", {}, title ? html("tr", { class: "group" }, cell) : null, lines);
  });
  const table = html("table", { class: "scores" }, html("thead", {}, head), body, means(data, longest, columns));
  const box = { class: rows.length > 40 ? "wide tall" : "wide", tabindex: "0", role: "region", "aria-label": "scores" };
  const legend = scoreLegend(data, rows, columns);
  const signature = data.scores.signature.map(([name, value]) => html("span", {}, `${name}: ${value}`));
  return [
    html("div", box, table),
    legend ? html("p", { class: "quiet legend" }, `${legend}.`) : null,
    html("p", { class: "signature" }, signature),
  ];
}

// The columns to the right of BLEU that have a number in any row; `means` is the column's part of the table's foot.
function scoreColumns(data, rows) {
  const { others, scorers } = data.scores;
  const column = (title, value, format) => ({ title, value, format, means: null });
  return [
    column("before", (row) => row.before, (value) => short(value, 1)),
    column("change", (row) => row.change, (value) => (value > 0 ? "+" : "") + short(value, 1)),
    column("from the start", (row) => row.from_start, (value) => short(value, 1)),
    ...others.map(({ name, means }, i) => ({ ...column(name, (row) => row.others[i], (value) => short(value, 1)), means })),
    column("chrF", (row) => row.scores?.chrf, (value) => short(value, 1)),
    column("off-target", (row) => row.scores?.off_target, offTarget),
    ...scorers.map((name, i) => column(name, (row) => row.by_scorers[i], fourDigits(rows.map((row) => row.by_scorers[i])))),
    column("dev loss", (row) => row.dev_loss, (value) => short(value)),
    column("L*", (row) => row.benchmark, (value) => short(value)),
  ].filter(({ value }) => rows.some((row) => typeof value(row) === "number"));
}

function scoreLegend(data, rows, columns) {
  const { others, scorers } = data.scores;
  const has = (name) => columns.some(({ title }) => title === name);
  return [
    rows.some(({ scores: s }) => typeof s?.bleu_low === "number") ? "Whiskers: 95\u00a0% confidence interval of BLEU" : "",
    data.scores.without_spaces.length
      ? `${listed(data.scores.without_spaces)}: written without spaces between words, so read chrF, not BLEU`
      : "",
    has("before") ? "before: BLEU of the run that this one started from, with fewer languages; change: BLEU since then" : "",
    has("from the start") ? `from the start: BLEU of ${data.scores.from_start}` : "",
    others.length ? `${listed(others.map(({ name }) => name))}: BLEU of these runs` : "",
    has("off-target") ? "off-target: share of translations in the wrong language (in brackets: of the references)" : "",
    scorers.length ? `${listed(scorers)}: mean over sentences of this external scorer` : "",
    has("dev loss") ? "dev loss: bits per token at the last validation" : "",
    has("L*") ? `L*: dev loss of ${reference(data)}` : "",
  ].filter(Boolean).join("; ");
}

function scoreRow(row, longest, columns) {
  const { bleu, bleu_low: low, bleu_high: high } = row.scores || {};
  return html(
    "tr", {},
    html("th", { scope: "row" }, row.hue ? swatch(row) : null, row.name),
    html("td", { class: "number strong" }, short(bleu, 1)),
    html("td", { class: "bar" }, row.scores ? bar(bleu, low, high, longest, row.hue || "neutral") : null),
    columns.map(({ value, format }) => html("td", { class: "number" }, format(value(row), row))),
  );
}

// Formats the scores of an external scorer with the same number of decimals: four digits of the largest one.
function fourDigits(values) {
  const largest = Math.max(0, ...values.map((value) => Math.abs(value || 0)));
  const decimals = largest ? Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(largest)))) : 1;
  return (value) => short(value, decimals);
}

// The rate on the references is the error rate of the language identifier.
function offTarget(share, { scores: row }) {
  const references = row?.off_target_references;
  const percent = (value) => (typeof value === "number" ? `${(100 * value).toFixed(1)}\u00a0%` : "–");
  return `${percent(share)}\u00a0(${percent(references)})`;
}

function bar(value, low, high, longest, colour) {
  const percent = (amount) => `${((100 * amount) / longest).toFixed(2)}%`;
  const stroke = (x1, x2, y1, y2) => svg("line", { class: "whisker", x1: percent(x1), x2: percent(x2), y1, y2 });
  const whisker = typeof low === "number" && typeof high === "number";
  const floor = Math.max(low, 0); // a normal interval around a small BLEU may be negative
  return svg(
    "svg", { class: "bar", width: "100%", height: 16, "aria-hidden": "true" },
    svg("rect", { class: `fill ${colour}`, x: 0, y: 4, width: percent(Math.max(value || 0, 0)), height: 8, rx: 1.5 }),
    whisker ? [stroke(floor, high, 8, 8), stroke(floor, floor, 4.5, 11.5), stroke(high, high, 4.5, 11.5)] : null,
  );
}

function means(data, longest, columns) {
  const titles = [["all", "mean of all"], ["hrl", "mean of HRLs"], ["lrl", "mean of LRLs"], ["worst", "worst"]];
  const known = titles.filter(([name]) => typeof data.scores.means[name] === "number");
  return html("tfoot", {}, known.map(([name, title]) => html(
    "tr", {},
    html("th", { scope: "row" }, title),
    html("td", { class: "number strong" }, short(data.scores.means[name], 1)),
    html("td", { class: "bar" }, bar(data.scores.means[name], null, null, longest, "neutral")),
    columns.map((column) => html("td", { class: "number" }, column.means ? short(column.means[name], 1) : "")),
  )));
}

function admissions(data) {
  if (!data.admissions.length) return quiet("No admissions yet.");
  const name = (admission) => data.languages[admission.language].name;
  const first = data.admissions.filter((admission) => admission.step === 0);
  const later = data.admissions.filter((admission) => admission.step > 0);
  const waiting = data.languages.filter((_, number) => !data.admissionOf.has(number)).map((language) => language.name);
  const reasons = [...new Set(first.map((admission) => admission.reason).filter(Boolean))];
  const because = reasons.length ? ` (${reasons.join("; ")})` : "";
  const items = groupAdmissions(later).map((group) => html(
    "li", {}, html("span", { class: "when" }, integer(group[0].step)), sentence(group[0], counted(group.map(name))),
  ));
  const list = html("ol", { class: "admissions" }, items);
  const soFar = data.summary.stopped ? "" : " so far";
  return [
    first.length ? html("p", {}, strong(counted(first.map(name))), ` in training from the start${because}.`) : null,
    items.length > 24 ? html("details", {}, html("summary", {}, `${items.length} later admissions`), list) : list,
    waiting.length ? html("p", {}, strong(counted(waiting)), ` not admitted${soFar}.`) : null,
  ];
}

// Languages admitted at the same step for the same reason share a sentence.
function groupAdmissions(admitted) {
  const groups = [];
  for (const admission of admitted) {
    const last = groups[groups.length - 1];
    const same = last && last[0].step === admission.step && last[0].reason === admission.reason;
    if (same && admission.hrls_competence === null) last.push(admission);
    else groups.push([admission]);
  }
  return groups;
}

const counted = (names) => (names.length > 24 ? `${integer(names.length)} languages` : listed(names));

const strong = (text) => html("strong", {}, text);

function sentence(admission, name) {
  const { hrls_competence: ready, threshold, vouched, reason } = admission;
  if (ready === null) return html("span", {}, strong(name), ` admitted${reason ? `: ${reason}` : ""}.`);
  const contributions = listed(vouched.map(([hrl, value]) => `${hrl} (${short(value)})`));
  const limit = threshold === null ? "" : `, threshold ${threshold}`;
  const by = contributions ? `; from the competence of ${contributions}` : "";
  return html("span", {}, strong(name), ` admitted: HRLs-evaluated competence ${short(ready, 3)}${limit}${by}.`);
}

function translations(data) {
  if (!data.translations.length) return quiet("No translations yet.");
  const folded = data.translations.length > MANY;
  return data.translations.filter(({ sentences }) => sentences.length).map(({ split, source, target, sentences }) => {
    const title = [strong(`${source} → ${target}`), html("span", { class: "quiet" }, ` ${split}`)];
    const texts = sentences.map((sentence) => html("dl", { class: "sentence" }, [
      ["source", sentence.source, source],
      ["translation", sentence.translation, target],
      ["reference", sentence.reference, target],
    ].filter(([, text]) => text !== null).map(([kind, text, code]) => html(
      "div", { class: kind }, html("dt", {}, kind), html("dd", { dir: "auto", lang: code }, text || "(empty)"),
    ))));
    return html("details", { class: "passage", open: folded ? false : "" }, html("summary", {}, title), texts);
  });
}

function settings(data) {
  const facts = data.environment.map(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]);
  if (!facts.length && !data.settings) return quiet("The run has neither config.yaml nor environment.json.");
  return html(
    "details",
    {},
    html("summary", {}, "Show settings, versions and data"),
    facts.length ? html("h3", {}, "Environment") : null,
    facts.length ? html("dl", { class: "facts" }, facts) : null,
    data.settings ? html("h3", {}, "Settings") : null,
    data.settings ? html("pre", { tabindex: "0", "aria-label": "settings of the run" }, data.settings) : null,
  );
}
