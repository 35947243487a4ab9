// Updates the language graph, which graph.py has drawn: the class `open` of admitted languages, the rings, and the
// competence beside them. The ring of a waiting LRL is its HRLs-evaluated competence, which decides about its admission;
// all other rings are the language's own competence.

const stepAt = (data, i) => (i < 0 ? 0 : data.rounds.steps[i]);

function admittedAt(data, number, i) {
  const admission = data.admissionOf.get(number);
  return admission !== undefined && admission.step <= stepAt(data, i);
}

// What the ring of a language shows in a round.
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
  setTimeout(() => root.classList.add("alive"), 100); // no transition for the first state
  return (i) => {
    const descriptions = [];
    for (const { node, tasks } of parts) {
      const admitted = tasks.filter((number) => admittedAt(data, number, i)).length;
      const open = admitted > 0 && admitted === tasks.length;
      node.classList.toggle("open", open);
      node.classList.toggle("part", admitted > 0 && !open); // one of both directions
      const ring = node.querySelector(".ring");
      if (!ring) continue;
      const known = tasks.map((number) => ringOf(data, number, i)).filter((value) => value !== null);
      const share = known.length ? Math.max(0, Math.min(Math.min(...known) / full, 1)) : 0;
      ring.setAttribute("stroke-dasharray", `${share.toFixed(3)} 1`);
      const text = known.map((value) => short(value)).join(" ");
      const beside = node.querySelector(".readiness");
      if (beside) beside.textContent = text;
      if (!node.classList.contains("lrl")) continue;
      descriptions.push(`${node.querySelector(".name").textContent} ${open ? "admitted" : "waiting"}${text && `, ${text}`}`);
    }
    root.setAttribute("aria-label", `Language graph at step ${integer(stepAt(data, i))}. ${descriptions.join("; ")}`);
  };
}

// How to read the drawing.
function graphCaption(data) {
  const families = document.querySelector(".language-graph.families") !== null;
  const near = families
    ? "Low-resource languages (LRLs) stand beside their nearest high-resource language (HRL), the most similar first. "
    : "A strong line connects each low-resource language (LRL) with its nearest high-resource language (HRL); the number "
      + "on it is their similarity. ";
  const mark = data.threshold > 0 ? " The mark on a ring is the threshold." : "";
  const directions = data.pivot
    ? ` Two numbers: translation into ${data.pivot}, then out of ${data.pivot}. Pale: one of both directions is admitted.`
    : "";
  const absent = data.graph.absent ? ` ${integer(data.graph.absent)} less similar languages are not drawn.` : "";
  return `${near}Filled: admitted. A ring is the competence of its language, closed at 1; the ring of a waiting LRL is its `
    + `HRLs-evaluated competence, which decides about its admission.${mark}${directions}${absent}`;
}
