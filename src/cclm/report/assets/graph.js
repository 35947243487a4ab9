// The language graph at a moment of training. The drawing is in the page already (graph.py); this only shows who takes
// part: the class `open`, how far a ring has closed, and the competence beside it. The ring of a waiting LRL is the
// competence of the HRLs like it, which decides about its admission; all other rings are a language's own.

const stepAt = (data, i) => (i < 0 ? 0 : data.rounds.steps[i]);

function admittedAt(data, number, i) {
  const admission = data.arrival.get(number);
  return admission !== undefined && admission.step <= stepAt(data, i);
}

// What the ring of a language shows at a round.
function ringOf(data, number, i) {
  if (i < 0) return null;
  const waits = data.languages[number].side === "lrl" && !admittedAt(data, number, i);
  return data.rounds[waits ? "hrls_competence" : "competence"][number][i];
}

function languageGraph(root, data) {
  const tasksOf = (node) => node.dataset.tasks.split(" ").filter(Boolean).map(Number);
  const parts = [...root.querySelectorAll("[data-tasks]")].map((node) => ({ node, tasks: tasksOf(node) }));
  const full = Math.max(1, data.threshold || 0);
  for (const mark of root.querySelectorAll(".mark")) {
    mark.toggleAttribute("hidden", !(data.threshold > 0));
    const turned = (360 * (data.threshold || 0)) / full;
    mark.setAttribute("transform", `rotate(${turned.toFixed(1)} ${mark.dataset.x} ${mark.dataset.y})`);
  }
  setTimeout(() => root.classList.add("alive"), 100); // the first state appears at once, later ones fade in
  return (i) => {
    const spoken = [];
    for (const { node, tasks } of parts) {
      const admitted = tasks.filter((number) => admittedAt(data, number, i)).length;
      const open = admitted > 0 && admitted === tasks.length;
      node.classList.toggle("open", open);
      node.classList.toggle("part", admitted > 0 && !open); // one of two directions
      const ring = node.querySelector(".ring");
      if (!ring) continue;
      const known = tasks.map((number) => ringOf(data, number, i)).filter((value) => value !== null);
      const share = known.length ? Math.max(0, Math.min(Math.min(...known) / full, 1)) : 0;
      ring.setAttribute("stroke-dasharray", `${share.toFixed(3)} 1`);
      const text = known.map((value) => short(value)).join(" ");
      const beside = node.querySelector(".readiness");
      if (beside) beside.textContent = text;
      if (!node.classList.contains("lrl")) continue;
      spoken.push(`${node.querySelector(".name").textContent} ${open ? "admitted" : "waiting"}${text && `, ${text}`}`);
    }
    root.setAttribute("aria-label", `Language graph at step ${whole(stepAt(data, i))}. ${spoken.join("; ")}`);
  };
}

// How to read the drawing.
function graphCaption(data) {
  const families = document.querySelector(".language-graph.families") !== null;
  const near = families
    ? "Low-resource languages stand beside the HRL nearest to them, the most similar first. "
    : "Strong lines come from the nearest HRL, with the similarity. ";
  const both = data.pivot
    ? ` Two numbers: the direction into ${data.pivot}, then the one out of it; a pale disc takes part in one of them.`
    : "";
  const mark = data.threshold > 0 ? " The mark on it is the threshold." : "";
  const absent = data.graph.absent ? ` ${whole(data.graph.absent)} more languages, less similar, are not drawn.` : "";
  return `${near}A filled disc takes part. Its ring is its competence, closed at 1. The ring of a waiting LRL is the `
    + `competence of the HRLs like it, which decides.${mark}${both}${absent}`;
}
