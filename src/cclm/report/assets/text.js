// What is said in words and tables: the summary, the scores, the admissions, the translations, what was run.

function summary(data) {
  const { method, steps, tokens, stopped, phase } = data.summary;
  const amount = `${whole(steps)} steps${tokens ? ` and ${large(tokens)} target tokens` : ""}`;
  const end = stopped
    ? `stopped at step ${whole(stopped.step)}${stopped.reason ? `: ${stopped.reason}` : ""}`
    : "not stopped yet";
  const best = stopped && stopped.best !== null ? `; best checkpoint: step ${whole(stopped.best)}` : "";
  const second = phase === null ? "" : `; second phase from step ${whole(phase)}`;
  return `${method ? `${method}. ` : ""}${amount}; ${end}${best}${second}.`;
}

const quiet = (text) => html("p", { class: "quiet" }, text);

function swatch(language) {
  const place = { x1: 0, x2: 18, y1: 6, y2: 6 };
  const line = svg("line", { class: `line ${language.hue}`, ...place, "stroke-dasharray": dash(language) });
  return svg("svg", { class: "swatch", viewBox: "0 0 18 12", width: 18, height: 12, "aria-hidden": "true" }, line);
}

function scores(data) {
  if (!data.scores) return quiet("No scores yet.");
  const rows = data.languages.filter((language) => language.scores);
  const most = Math.max(1, ...rows.map(({ scores: s }) => Math.max(s.bleu || 0, s.bleu_high || 0)));
  const columns = [
    ...data.scores.others.map(({ name }, i) => [name, (language) => language.others[i], (value) => short(value, 1)]),
    ["chrF", (language) => language.scores.chrf, (value) => short(value, 1)],
    ["off-target", (language) => language.scores.off_target, offTarget],
    ...data.scores.scorers.map((name, i) => {
      const value = (language) => language.by_scorers[i];
      return [name, value, alike(rows.map(value))];
    }),
    ["dev loss", (language) => language.dev_loss, (value) => short(value)],
    ["L*", (language) => language.benchmark, (value) => short(value)],
  ].filter(([, value]) => rows.some((language) => typeof value(language) === "number"));
  const has = (name) => columns.some(([title]) => title === name);
  const body = [["hrl", "high-resource"], ["lrl", "low-resource"], [null, ""]].map(([side, title]) => {
    const members = rows.filter((language) => language.side === side);
    if (!members.length) return null;
    const cell = html("th", { colspan: String(columns.length + 3), scope: "rowgroup" }, title);
    const lines = members.map((language) => scoreRow(language, most, columns));
    return html("tbody", {}, title ? html("tr", { class: "group" }, cell) : null, lines);
  });
  const legend = [
    rows.some(({ scores: s }) => typeof s.bleu_low === "number") ? "Whiskers: confidence interval of BLEU" : "",
    data.scores.without_spaces.length
      ? `${listed(data.scores.without_spaces)}: written without spaces between words, so read chrF, not BLEU`
      : "",
    data.scores.others.length ? `${data.scores.others.map(({ name }) => name).join(", ")}: BLEU of these systems` : "",
    has("off-target") ? "off-target: translations in another language than asked for (in brackets: references)" : "",
    data.scores.scorers.length ? `${listed(data.scores.scorers)}: mean over sentences of what that scorer gave` : "",
    has("dev loss") ? "dev loss: bits per token at the last validation" : "",
    has("L*") ? "L*: that of the language's own bitext model" : "",
  ].filter(Boolean);
  const head = html(
    "tr", {}, html("th", { scope: "col" }, "language"), html("th", { scope: "col", colspan: "2" }, "BLEU"),
    columns.map(([title]) => html("th", { scope: "col", class: "number" }, title)),
  );
  const table = html("table", { class: "scores" }, html("thead", {}, head), body, means(data, most, columns));
  const box = { class: rows.length > 40 ? "wide tall" : "wide", tabindex: "0", role: "region", "aria-label": "scores" };
  const signature = data.scores.signature.map(([name, value]) => html("span", {}, `${name}: ${value}`));
  return [
    html("div", box, table),
    legend.length ? html("p", { class: "quiet legend" }, `${legend.join("; ")}.`) : null,
    html("p", { class: "signature" }, signature),
  ];
}

function scoreRow(language, most, columns) {
  const { bleu, bleu_low: low, bleu_high: high } = language.scores;
  return html(
    "tr", {},
    html("th", { scope: "row" }, swatch(language), language.name),
    html("td", { class: "number strong" }, short(bleu, 1)),
    html("td", { class: "bar" }, bar(bleu, low, high, most, language.hue)),
    columns.map(([, value, written]) => html("td", { class: "number" }, written(value(language), language))),
  );
}

// A number of a scorer's, with the digits that show four of the largest one.
function alike(values) {
  const most = Math.max(0, ...values.map((value) => Math.abs(value || 0)));
  const digits = most ? Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(most)))) : 1;
  return (value) => short(value, digits);
}

// The identifier errs: what it says of the references stands beside.
function offTarget(share, { scores: { off_target_references: references } }) {
  const percent = (value) => (typeof value === "number" ? `${(100 * value).toFixed(1)}\u00a0%` : "–");
  return `${percent(share)}\u00a0(${percent(references)})`;
}

function bar(value, low, high, most, colour) {
  const percent = (amount) => `${((100 * amount) / most).toFixed(2)}%`;
  const stroke = (x1, x2, y1, y2) => svg("line", { class: "whisker", x1: percent(x1), x2: percent(x2), y1, y2 });
  const whisker = typeof low === "number" && typeof high === "number";
  const floor = Math.max(low, 0); // the normal interval around a BLEU near 0 reaches below it
  return svg(
    "svg", { class: "bar", width: "100%", height: 16, "aria-hidden": "true" },
    svg("rect", { class: `fill ${colour}`, x: 0, y: 4, width: percent(Math.max(value || 0, 0)), height: 8, rx: 1.5 }),
    whisker ? [stroke(floor, high, 8, 8), stroke(floor, floor, 4.5, 11.5), stroke(high, high, 4.5, 11.5)] : null,
  );
}

function means(data, most, columns) {
  const titles = [["all", "mean of all"], ["hrl", "mean of HRLs"], ["lrl", "mean of LRLs"], ["worst", "worst"]];
  const known = titles.filter(([name]) => typeof data.scores.means[name] === "number");
  return html("tfoot", {}, known.map(([name, title]) => html(
    "tr", {},
    html("th", { scope: "row" }, title),
    html("td", { class: "number strong" }, short(data.scores.means[name], 1)),
    html("td", { class: "bar" }, bar(data.scores.means[name], null, null, most, "neutral")),
    columns.map((_, i) => {
      const other = data.scores.others[i];
      return html("td", { class: "number" }, other ? short(other.means[name], 1) : "");
    }),
  )));
}

function admissions(data) {
  if (!data.admissions.length) return quiet("No admissions yet.");
  const name = (admission) => data.languages[admission.language].name;
  const first = data.admissions.filter((admission) => admission.step === 0);
  const later = data.admissions.filter((admission) => admission.step > 0);
  const waiting = data.languages.filter((_, number) => !data.arrival.has(number)).map((language) => language.name);
  const reasons = [...new Set(first.map((admission) => admission.reason).filter(Boolean))];
  const because = reasons.length ? ` (${reasons.join("; ")})` : "";
  const items = together(later).map((group) => html(
    "li", {}, html("span", { class: "when" }, whole(group[0].step)), sentence(group[0], counted(group.map(name))),
  ));
  const list = html("ol", { class: "admissions" }, items);
  const sofar = data.summary.stopped ? "" : " so far";
  return [
    first.length ? html("p", {}, strong(counted(first.map(name))), ` took part from the start${because}.`) : null,
    items.length > 24 ? html("details", {}, html("summary", {}, `${items.length} later admissions`), list) : list,
    waiting.length ? html("p", {}, strong(counted(waiting)), ` took no part${sofar}.`) : null,
  ];
}

// Those who came at one step for one reason share a sentence.
function together(admitted) {
  const groups = [];
  for (const admission of admitted) {
    const last = groups[groups.length - 1];
    const same = last && last[0].step === admission.step && last[0].reason === admission.reason;
    if (same && admission.hrls_competence === null) last.push(admission);
    else groups.push([admission]);
  }
  return groups;
}

const counted = (names) => (names.length > 24 ? `${whole(names.length)} languages` : listed(names));

const strong = (text) => html("strong", {}, text);

function sentence(admission, name) {
  const { hrls_competence: ready, threshold, vouched, reason } = admission;
  if (ready === null) return html("span", {}, strong(name), ` joined${reason ? `: ${reason}` : ""}.`);
  const witnesses = listed(vouched.map(([hrl, value]) => `${hrl} (${short(value)})`));
  const limit = threshold === null ? "" : `, at or above the threshold of ${threshold}`;
  const by = witnesses ? `; vouched for by ${witnesses}` : "";
  return html("span", {}, strong(name), ` joined: its HRLs-evaluated competence was ${short(ready, 3)}${limit}${by}.`);
}

function translations(data) {
  if (!data.translations.length) return quiet("No translations yet.");
  const folded = data.translations.length > MANY;
  return data.translations.filter(({ sentences }) => sentences.length).map(({ split, source, target, sentences }) => {
    const title = [strong(`${source} → ${target}`), html("span", { class: "quiet" }, ` ${split}`)];
    const texts = sentences.map((one) => html("dl", { class: "sentence" }, [
      ["source", one.source, source], ["translation", one.translation, target], ["reference", one.reference, target],
    ].filter(([, text]) => text !== null).map(([kind, text, code]) => html(
      "div", { class: kind }, html("dt", {}, kind), html("dd", { dir: "auto", lang: code }, text || "(empty)"),
    ))));
    return html("details", { class: "passage", open: folded ? false : "" }, html("summary", {}, title), texts);
  });
}

function whatWasRun(data) {
  const facts = data.environment.map(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]);
  if (!facts.length && !data.settings) return quiet("Neither config.yaml nor environment.json is here.");
  return html(
    "details",
    {},
    html("summary", {}, "Settings, versions and data"),
    facts.length ? html("h3", {}, "Environment") : null,
    facts.length ? html("dl", { class: "facts" }, facts) : null,
    data.settings ? html("h3", {}, "Settings") : null,
    data.settings ? html("pre", { tabindex: "0", "aria-label": "settings of the run" }, data.settings) : null,
  );
}
