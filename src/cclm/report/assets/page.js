// The page. `draw(data)` draws everything from one object, and may be called again with a newer one.

let redraw = null; // what to do when the window changes, or nothing
let drawing = null; // the language graph, which is in the page from the beginning

function draw(data) {
  const page = document.getElementById("page");
  drawing ??= document.getElementById("language-graph");
  data.arrival = new Map(data.admissions.map((admission) => [admission.language, admission]));
  const moment = moments(data);
  const drawings = [];
  page.replaceChildren(
    html(
      "header",
      {},
      html("p", { class: "kicker" }, "cclm run"),
      html("h1", {}, data.name),
      html("p", { class: "lead" }, summary(data)),
    ),
    section("graph", "Who took part, and when", graphSection(data, moment)),
    section("curves", "How it went", curvesSection(data, moment, drawings)),
    section("scores", "Scores", scores(data)),
    section("admissions", "Why each language was admitted", admissions(data)),
    section("translations", "Translations to read", translations(data)),
    section("run", "What was run", whatWasRun(data)),
  );
  const all = () => {
    moment.shows.length = moment.fixed;
    for (const { holder, make } of drawings) {
      holder.replaceChildren();
      moment.shows.push(make(holder));
    }
    moment.tell();
  };
  moment.fixed = moment.shows.length;
  all();
  redraw = all;
  moment.keys(document);
}

function section(id, title, content) {
  return html("section", { id, "aria-labelledby": `${id}-title` }, html("h2", { id: `${id}-title` }, title), content);
}

function graphSection(data, moment) {
  if (!drawing) return [quiet("No language graph here: graph.json is neither in the run nor two folders above it.")];
  moment.shows.push(languageGraph(drawing.querySelector("svg"), data));
  const measured = data.rounds.steps.length > 0;
  const controls = measured ? player(data, moment) : null;
  const figure = html("figure", {}, drawing, controls, html("figcaption", {}, graphCaption(data)));
  return [figure, measured ? null : quiet("No round measured yet.")];
}

window.addEventListener("error", (event) => {
  const said = `This page could not be drawn in full: ${event.message}`;
  document.body.append(html("p", { class: "error", role: "alert" }, said));
});

let resizing = null;
let drawnWidth = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  if (window.innerWidth === drawnWidth) return; // on phones the bar of the browser comes and goes
  resizing = setTimeout(() => {
    drawnWidth = window.innerWidth;
    if (redraw) redraw();
  }, 120);
});

const embedded = document.getElementById("run-data");
if (embedded) draw(JSON.parse(embedded.textContent));
