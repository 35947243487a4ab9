// The charts of a run: what each shows, between which limits, and how its numbers are written. The report has the four
// of the curriculum; the board adds those of the training (board_run.js).

function curvesSection(data, moment, drawings) {
  if (!data.rounds.steps.length) return [quiet("No round measured yet.")];
  const figures = charts(data).filter((spec) => spec.languages.length).map((spec) => {
    const holder = html("div", { class: "drawing" });
    drawings.push({ holder, make: (into) => hoverable(chart(into, data, spec, moment)) });
    return html("figure", { id: spec.id, class: "curve" }, html("h3", {}, spec.title), quiet(spec.note), holder);
  });
  const { steps, measured: all } = data.rounds;
  const thinned = all > steps.length ? ` Of ${whole(all)} rounds ${whole(steps.length)} are drawn.` : "";
  const key = data.languages.length > MANY
    ? " Strong lines are medians; point at a line for its name."
    : data.pivot
      ? ` Both directions of a language share its hue: into ${data.pivot} solid, out of ${data.pivot} dashed.`
      : " Dashed lines are LRLs, in the hue of the nearest HRL.";
  const readable = "Thin upright lines mark admissions. Left and right arrow keys move through the rounds, with Shift "
    + "from admission to admission; the space bar on the slider plays and pauses.";
  return [quiet(readable + key + thinned), figures];
}

const hoverable = (show) => (i) => show(Math.max(i, 0));

const NOTES = {
  competence: "How well each language has been learned; 1 is as well as by its own bitext model.",
  ready: "How ready each low-resource language is, by the competence of the high-resource languages like it.",
  weights: "The share of training that each language gets.",
  loss: "Bits per target token, on the probe's sentences.",
};

function charts(data) {
  const { competence, hrls_competence: ready, weights, dev_loss: loss } = data.rounds;
  const chartOf = (id, title, table, note) => ({
    id, title, table, note, languages: measured(table),
    rule: null, say: short, tick: brief, powers: false, stacked: false,
  });
  const threshold = data.threshold === null ? null : { value: data.threshold, label: `threshold ${data.threshold}` };
  return [
    {
      ...chartOf("competence", "Competence", competence, NOTES.competence + weakReference(data)),
      ...competenceScale(extent(competence)[1]), rule: { value: 1, label: "c = 1, the bitext model" },
    },
    {
      ...chartOf("hrls-competence", "HRLs-evaluated competence", ready, NOTES.ready),
      rule: threshold, range: [0, Math.max(1, (data.threshold || 0) * 1.05, extent(ready)[1] * 1.05)],
    },
    {
      ...chartOf("weights", "Sampling weights", weights, NOTES.weights),
      stacked: true, tick: percent, say: (value) => (value === null ? "–" : percent(value)), range: [0, 1],
    },
    { ...chartOf("dev-loss", "Dev loss", loss, NOTES.loss), range: around(extent(loss)) },
  ];
}

// Competence is 2 to the power of L* minus the dev loss: at 2 the bitext model is a whole bit per token worse.
function weakReference(data) {
  const last = (values) => (lastOf(values) === null ? 0 : values[lastOf(values)]);
  const high = data.languages.map(({ name }, i) => [name, last(data.rounds.competence[i])]).filter(([, c]) => c > 2);
  if (!high.length) return "";
  const shown = high.slice(0, 8).map(([name, value]) => `${name} ${short(value)}`);
  const more = high.length > shown.length ? [`${high.length - shown.length} more`] : [];
  return ` Far above 1: ${listed([...shown, ...more])}. There the bitext model behind L* is much worse than this model, `
    + "so that competence says little about quality. Train the bitext models longer (benchmark.max_steps), or give "
    + "losses of your own (benchmark.file).";
}

// An LRL can come far above its bitext model; then equal factors are equally long, and the first steps fall out below.
function competenceScale(top) {
  if (top <= 2.5) return { range: [0, Math.max(1.1, top * 1.05)] };
  return { range: [1 / 8, top * 1.05], powers: true };
}

const brief = (value) => (Math.abs(value) < 1e5 ? String(value) : value.toPrecision(2));

const percent = (value) => `${Math.round(value * 100)} %`;

const around = ([low, high]) => [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)];

// The languages that have a number in this table at all.
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
