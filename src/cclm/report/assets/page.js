// Builds the page. `draw(data)` takes the object of run_data.py and may be called again with newer data.

let redraw = null; // draws the charts again, for another width of the window
let drawing = null; // the element of the language graph, which is part of the HTML

function draw(data) {
  const page = document.getElementById("page");
  drawing ??= document.getElementById("language-graph");
  data.admissionOf = new Map(data.admissions.map((admission) => [admission.language, admission]));
  const playhead = createPlayhead(data);
  const drawings = [];
  page.replaceChildren(
    html(
      "header",
      {},
      html("p", { class: "kicker" }, "cclm run"),
      html("h1", {}, data.name),
      html("p", { class: "lead" }, summary(data)),
    ),
    section("graph", "Language graph", graphSection(data, playhead)),
    section("curves", "Training curves", curvesSection(data, playhead, drawings)),
    section("scores", "Scores", scores(data)),
    section("admissions", "Admissions", admissions(data)),
    section("translations", "Example translations", translations(data)),
    section("run", "Settings and environment", settings(data)),
  );
  const permanent = playhead.listeners.length; // the listeners of charts are replaced with the charts
  redraw = () => {
    playhead.listeners.length = permanent;
    for (const { holder, make } of drawings) {
      holder.replaceChildren();
      playhead.listeners.push(make(holder));
    }
    playhead.notify();
  };
  redraw();
  playhead.listenToKeys(document);
}

function section(id, title, content) {
  return html("section", { id, "aria-labelledby": `${id}-title` }, html("h2", { id: `${id}-title` }, title), content);
}

function graphSection(data, playhead) {
  if (!drawing && data.languages.every((language) => language.side === "hrl")) {
    return [quiet("All languages took part from the start: there is no language graph.")];
  }
  if (!drawing) return [quiet("No language graph: graph.json is neither in the run nor in its work folder.")];
  playhead.listeners.push(languageGraph(drawing.querySelector("svg"), data));
  const measured = data.rounds.steps.length > 0;
  const controls = measured ? player(data, playhead) : null;
  const figure = html("figure", {}, drawing, controls, html("figcaption", {}, graphCaption(data)));
  return [figure, measured ? null : quiet("No round has been measured yet.")];
}

window.addEventListener("error", (event) => {
  const message = `Part of this page could not be drawn: ${event.message}`;
  document.body.append(html("p", { class: "error", role: "alert" }, message));
});

let resizing = null;
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  if (window.innerWidth === drawnWidth) return; // phones resize the height when the address bar hides
  resizing = setTimeout(() => {
    drawnWidth = window.innerWidth;
    if (redraw) redraw();
  }, 120);
});

const embedded = document.getElementById("run-data");
if (embedded) draw(JSON.parse(embedded.textContent));
