let standing = null; // the step at which the reader left the slider; null at the end, where new rounds are followed
let listening = new AbortController();

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
  const button = (label, path, action) =>
    html("button", { type: "button", "aria-label": label, onclick: action }, icon(path));
  const play = button("play", ICONS.play, () => run(moment.timer === null));
  function run(on) {
    clearInterval(moment.timer);
    moment.timer = null;
    if (on) {
      if (moment.at === last) moment.go(first);
      const pace = Math.max(30, Math.min(600, 12000 / (last - first + 1)));
      const tick = () => (moment.at < last && play.isConnected ? moment.go(moment.at + 1) : run(false));
      moment.timer = setInterval(tick, pace);
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
  const back = button("previous round", ICONS.back, () => moment.go(moment.at - 1));
  const on = button("next round", ICONS.on, () => moment.go(moment.at + 1));
  const track = html("div", { class: "track" }, marks(data, first, last), slider);
  return html("div", { class: "player" }, html("div", { class: "controls" }, back, play, on, track, step), news);
}

function marks(data, first, last) {
  const late = data.admissions.filter(({ step }) => step > 0);
  const at = late.map(({ step }) => data.rounds.steps.findIndex((reached) => reached >= step));
  const percent = (i) => `${((100 * (i - first)) / Math.max(last - first, 1)).toFixed(2)}%`;
  const found = [...new Set(at)].filter((i) => i >= 0);
  const lines = found.map((i) => svg("line", { x1: percent(i), x2: percent(i), y1: 0, y2: 6 }));
  return svg("svg", { class: "marks", width: "100%", height: 6, "aria-hidden": "true" }, lines);
}

function newsAt(data, i, first) {
  const before = i <= first ? -1 : stepAt(data, i - 1);
  const new_ = data.admissions.filter(({ step }) => step > before && step <= stepAt(data, i) && step > 0);
  const names = new_.map(({ language }) => data.languages[language].name);
  const inside = data.admissions.filter(({ step }) => step <= stepAt(data, i)).length;
  const noun = data.pivot ? "directions" : "languages";
  if (names.length) return `${names.length > 8 ? `${names.length} ${noun}` : listed(names)} admitted`;
  return `${inside} of ${data.languages.length} ${noun} take part`;
}
