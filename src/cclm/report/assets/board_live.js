// What all pages of the board share: asking the server, hearing of changes, states in words and signs.

const STATES = {
  running: ["●", "running"], finished: ["✓", "finished"], interrupted: ["◐", "interrupted"], failed: ["✕", "failed"],
  damaged: ["✕", "damaged"], waiting: ["○", "waiting"], "bitext system": ["✓", "bitext models"],
};
const ENDED = new Set(["finished", "bitext system"]);
const stateClass = (state) => `state-${state in STATES ? state.replace(" ", "-") : "waiting"}`;

// A state as a sign, a word and a colour: nobody depends on the colour.
function pill(state) {
  const [sign, word] = STATES[state] || ["○", String(state)];
  return html("span", { class: `pill ${stateClass(state)}` }, html("span", { "aria-hidden": "true" }, sign), ` ${word}`);
}

function duration(seconds) {
  const minutes = Math.round(seconds / 60);
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

function progress(now, label) {
  const share = now.max_steps ? Math.max(0, Math.min(now.step / now.max_steps, 1)) : 0;
  const box = {
    class: `progress ${stateClass(now.state)}`, role: "progressbar", "aria-label": label, "aria-valuemin": "0",
    "aria-valuemax": "100", "aria-valuenow": String(Math.round(100 * share)),
  };
  const done = html("span", { class: "done" });
  done.style.width = `${(100 * share).toFixed(2)}%`;
  return html("div", box, done);
}

async function ask(address) {
  const answer = await fetch(address, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `answer ${answer.status}`);
  return answer.json();
}

// Calls `act` at once and whenever one of these ids has changed (without ids, whenever anything has), one call at a
// time and not more often than every `pace` milliseconds. A page that nobody sees neither asks nor listens.
function follow(isMine, act, pace = () => 700) {
  let [busy, again, last, stream] = [false, false, 0, null];
  const badge = document.getElementById("live");
  const tell = (text, ok) => {
    badge.textContent = text;
    badge.classList.toggle("lost", !ok);
  };
  async function run() {
    if (busy) return void (again = true);
    busy = true;
    await new Promise((done) => setTimeout(done, Math.max(0, last + pace() - performance.now())));
    [again, last] = [false, performance.now()];
    try {
      await act();
    } catch (error) {
      if (!(error instanceof TypeError)) tell(error.message, false); // a TypeError: no answer; the stream says so
      if (!(error instanceof TypeError) && !/no such page/.test(error.message)) throw error;
    } finally {
      busy = false;
    }
    if (again) run();
  }
  function listen() {
    if (document.hidden || stream) return;
    stream = new EventSource("/api/events");
    stream.onopen = () => tell("live", true);
    stream.onmessage = (event) => {
      if (JSON.parse(event.data).changed.some(isMine)) run();
    };
    stream.onerror = () => tell("not connected: the board has stopped, or is starting again", false);
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return listen();
    if (stream) stream.close();
    stream = null;
  });
  listen();
  return run();
}

function section(id, title, ...content) {
  return html("section", { id, "aria-labelledby": `${id}-title` }, html("h2", { id: `${id}-title` }, title), content);
}

// Replaces what is in an element, and gives the focus back to the control that has the same label.
function refill(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  const label = focused && (focused.id || focused.getAttribute("aria-label") || focused.textContent);
  node.replaceChildren(...children.flat(Infinity).filter(Boolean));
  if (label === null) return;
  const same = [...node.querySelectorAll("a, button, input, select, [tabindex]")].find(
    (one) => (one.id || one.getAttribute("aria-label") || one.textContent) === label,
  );
  if (same) same.focus({ preventScroll: true });
}

// A command that can be copied.
function command(text) {
  const said = html("span", { class: "quiet", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = " copied";
    } catch {
      said.textContent = " select the text to copy it";
    }
  };
  return html("p", { class: "command" }, html("code", {}, text), html("button", { type: "button", onclick: copy }, "copy"), said);
}
