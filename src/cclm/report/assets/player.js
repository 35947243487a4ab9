let savedStep = null; // the step that the reader selected; null for the last round, which then follows newer data
let keyListeners = new AbortController();

// The round that the graph and all charts show: the position of the slider, or the round under the pointer.
// Round -1 is the start of training, before the first measurement.
function createPlayhead(data) {
  const last = data.rounds.steps.length - 1;
  const first = last >= 0 && data.rounds.steps[0] === 0 ? 0 : -1;
  const saved = savedStep === null ? -1 : data.rounds.steps.findIndex((step) => step >= savedStep);
  const at = savedStep === 0 ? first : saved < 0 ? last : saved;
  const playhead = { first, last, at, hovered: null, listeners: [], timer: null };
  playhead.notify = () => playhead.listeners.forEach((show) => show(playhead.hovered ?? playhead.at));
  playhead.hover = (i) => {
    playhead.hovered = i;
    playhead.notify();
  };
  playhead.go = (i) => {
    playhead.at = Math.max(first, Math.min(last, i));
    savedStep = playhead.at === last ? null : stepAt(data, playhead.at);
    playhead.notify();
  };
  // Moves to the next (direction 1) or previous (direction -1) admission.
  playhead.jump = (direction) => {
    const admissions = data.admissions.map((admission) => data.rounds.steps.findIndex((step) => step >= admission.step));
    const stops = [first, ...admissions.filter((i) => i >= 0), last].sort((a, b) => direction * (a - b));
    playhead.go(stops.find((i) => direction * (i - playhead.at) > 0) ?? playhead.at);
  };
  playhead.listenToKeys = (target) => {
    keyListeners.abort(); // removes those of an earlier call of draw()
    keyListeners = new AbortController();
    target.addEventListener("keydown", (event) => {
      const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!direction || event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.("input, pre, .wide")) return;
      event.preventDefault();
      if (event.shiftKey) playhead.jump(direction);
      else playhead.go(playhead.at + direction);
    }, { signal: keyListeners.signal });
  };
  return playhead;
}

function icon(path) {
  return svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, svg("path", { d: path }));
}

const ICONS = { back: "M11 3L5 8l6 5z", on: "M5 3l6 5-6 5z", play: "M4 2l9 6-9 6z", pause: "M4 3h3v10H4zM9 3h3v10H9z" };

function player(data, playhead) {
  const { first, last } = playhead;
  const slider = html("input", {
    type: "range", min: String(first), max: String(last), value: String(last), "aria-label": "measurement round",
    "aria-keyshortcuts": "ArrowLeft ArrowRight Home End Space",
    oninput: (event) => playhead.go(Number(event.target.value)),
    onkeydown: (event) => {
      if (event.key !== " ") return; // the browser handles the other keys of a slider
      event.preventDefault();
      run(playhead.timer === null);
    },
  });
  const step = html("output", { class: "step" });
  const news = html("p", { class: "news", "aria-live": "polite" });
  const button = (label, path, action) =>
    html("button", { type: "button", "aria-label": label, onclick: action }, icon(path));
  const play = button("play", ICONS.play, () => run(playhead.timer === null));
  function run(on) {
    clearInterval(playhead.timer);
    playhead.timer = null;
    if (on) {
      if (playhead.at === last) playhead.go(first);
      const pace = Math.max(30, Math.min(600, 12000 / (last - first + 1)));
      const tick = () => (playhead.at < last && play.isConnected ? playhead.go(playhead.at + 1) : run(false));
      playhead.timer = setInterval(tick, pace);
    }
    play.replaceChildren(icon(on ? ICONS.pause : ICONS.play));
    play.setAttribute("aria-label", on ? "pause" : "play");
  }
  playhead.listeners.push((i) => {
    slider.value = String(i);
    slider.setAttribute("aria-valuetext", `step ${integer(stepAt(data, i))}`);
    step.textContent = `step ${integer(stepAt(data, i))}`;
    const text = newsAt(data, i, first);
    if (news.textContent !== text) news.textContent = text;
  });
  const back = button("previous round", ICONS.back, () => playhead.go(playhead.at - 1));
  const on = button("next round", ICONS.on, () => playhead.go(playhead.at + 1));
  const track = html("div", { class: "track" }, marks(data, first, last), slider);
  const box = { class: "player", role: "group", "aria-label": "training steps" };
  return html("div", box, html("div", { class: "controls" }, back, play, on, track, step), news);
}

function marks(data, first, last) {
  const late = data.admissions.filter(({ step }) => step > 0);
  const at = late.map(({ step }) => data.rounds.steps.findIndex((reached) => reached >= step));
  const percent = (i) => `${((100 * (i - first)) / Math.max(last - first, 1)).toFixed(2)}%`;
  const rounds = [...new Set(at)].filter((i) => i >= 0);
  const lines = rounds.map((i) => svg("line", { x1: percent(i), x2: percent(i), y1: 0, y2: 6 }));
  return svg("svg", { class: "marks", width: "100%", height: 6, "aria-hidden": "true" }, lines);
}

function newsAt(data, i, first) {
  const before = i <= first ? -1 : stepAt(data, i - 1);
  const admitted = data.admissions.filter(({ step }) => step > before && step <= stepAt(data, i) && step > 0);
  const names = admitted.map(({ language }) => data.languages[language].name);
  const total = data.admissions.filter(({ step }) => step <= stepAt(data, i)).length;
  const noun = data.pivot ? "directions" : "languages";
  if (names.length) return `${names.length > 8 ? `${names.length} ${noun}` : listed(names)} admitted`;
  return `${total} of ${data.languages.length} ${noun} admitted`;
}
