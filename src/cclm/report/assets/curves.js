// Defines the four charts of a run: data, range, number format and explanation.

function curvesSection(data, playhead, drawings) {
  if (!data.rounds.steps.length) return [quiet("No round has been measured yet.")];
  const figures = charts(data).filter((spec) => spec.languages.length).map((spec) => {
    const holder = html("div", { class: "drawing" });
    drawings.push({ holder, make: (into) => fromFirstRound(chart(into, data, spec, playhead)) });
    return html("figure", { id: spec.id, class: "curve" }, html("h3", {}, spec.title), quiet(spec.note), holder);
  });
  const { steps, measured: all } = data.rounds;
  const thinned = all > steps.length ? ` ${integer(steps.length)} of ${integer(all)} rounds are drawn.` : "";
  const key = data.languages.length > MANY
    ? " Strong lines are medians. Point at a line to see its name."
    : data.pivot
      ? ` Both directions of a language have the same hue: into ${data.pivot} solid, out of ${data.pivot} dashed.`
      : data.graph ? " Dashed lines are LRLs, in the hue of the nearest HRL." : "";
  const explanation = data.graph
    ? "Thin vertical lines mark admissions. The left and right arrow keys move from round to round, with "
      + "Shift from admission to admission; the space bar on the slider plays and pauses."
    : "The left and right arrow keys move from round to round.";
  return [quiet(explanation + key + thinned), figures];
}

const fromFirstRound = (show) => (i) => show(Math.max(i, 0));

const NOTES = {
  competence: "How well the model translates each language, relative to ",
  ready: "Competence of the HRLs that are similar to each LRL. An LRL is admitted when it reaches the threshold.",
  weights: "The share of training batches drawn from each language.",
  loss: "Bits per target token, on a sample of the dev set.",
};

function charts(data) {
  const { competence, hrls_competence: ready, weights, dev_loss: loss } = data.rounds;
  const chartOf = (id, title, table, note) => ({
    id, title, table, note, languages: measured(table),
    rule: null, format: short, tick: brief, powers: false, stacked: false,
  });
  const threshold = data.threshold === null ? null : { value: data.threshold, label: `threshold ${data.threshold}` };
  const note = `${NOTES.competence}${reference(data)} (1).${standardErrors(data)}${weakReference(data)}`;
  return [
    {
      ...chartOf("competence", "Competence", competence, note),
      ...competenceScale(extent(competence)[1]), rule: { value: 1, label: isShared(data) ? "short training" : "bitext model" },
    },
    {
      ...chartOf("hrls-competence", "HRLs-evaluated competence", ready, NOTES.ready),
      rule: threshold, range: [0, Math.max(1, (data.threshold || 0) * 1.05, extent(ready)[1] * 1.05)],
    },
    {
      ...chartOf("weights", "Sampling weights", weights, NOTES.weights),
      stacked: true, tick: percent, format: (value) => (value === null ? "–" : percent(value)), range: [0, 1],
    },
    { ...chartOf("dev-loss", "Dev loss", loss, NOTES.loss), range: around(extent(loss)) },
  ];
}

const isShared = (data) => data.summary.benchmark_method === "multilingual";
const reference = (data) => (isShared(data) ? "a short multilingual training" : "the language's bitext model");

// The bounded probe estimates how far its competences may be off.
function standardErrors(data) {
  const known = data.languages.filter(({ competence_se: error }) => typeof error === "number");
  if (!known.length) return "";
  const shown = known.slice(0, 8).map(({ name, competence_se: error }) => `${name} ±${short(error, 3)}`);
  const more = known.length > shown.length ? [`${known.length - shown.length} more`] : [];
  return ` Standard errors in the last round: ${listed([...shown, ...more])}.`;
}

// Competence is 2^(L* - dev loss): at 2, the bitext model is one bit per token worse than this model.
function weakReference(data) {
  const last = (values) => (lastOf(values) === null ? 0 : values[lastOf(values)]);
  const high = data.languages.map(({ name }, i) => [name, last(data.rounds.competence[i])]).filter(([, c]) => c > 2);
  if (!high.length || isShared(data)) return "";
  const shown = high.slice(0, 8).map(([name, value]) => `${name} ${short(value)}`);
  const more = high.length > shown.length ? [`${high.length - shown.length} more`] : [];
  return ` Far above 1: ${listed([...shown, ...more])}. Their bitext models are much worse than this model, so that `
    + "competence says little about quality. Train the bitext models longer (benchmark.max_steps), or provide other "
    + "reference losses (benchmark.file).";
}

// Competences far above 1 get a logarithmic axis, which cuts off the first steps below 1/8.
function competenceScale(top) {
  if (top <= 2.5) return { range: [0, Math.max(1.1, top * 1.05)] };
  return { range: [1 / 8, top * 1.05], powers: true };
}

const brief = (value) => (Math.abs(value) < 1e5 ? String(value) : value.toPrecision(2));

const percent = (value) => `${Math.round(value * 100)} %`;

const around = ([low, high]) => [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)];

// The languages with at least one value in this table.
function measured(table) {
  return table.map((values, i) => (values.some((value) => value !== null) ? i : -1)).filter((i) => i >= 0);
}

function extent(table) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of table.flat()) {
    if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  return [low, high];
}
