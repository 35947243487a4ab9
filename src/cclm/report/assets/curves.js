// The four charts of a run: what each shows, between which limits, and how its numbers are written.

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
    + "from admission to admission.";
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
      ...chartOf("competence", "Competence", competence, NOTES.competence),
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
