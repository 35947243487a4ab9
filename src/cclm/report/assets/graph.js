// Updates the language graph, which graph.py has drawn: the class `open` of admitted languages, the rings, and the
// HRLs-evaluated competence beside them.

const stepAt = (data, i) => (i < 0 ? 0 : data.rounds.steps[i]);

function admittedAt(data, number, i) {
  const admission = data.admissionOf.get(number);
  return admission !== undefined && admission.step <= stepAt(data, i);
}

function languageGraph(root, data) {
  const tasksOf = (node) => node.dataset.tasks.split(" ").filter(Boolean).map(Number);
  const parts = [...root.querySelectorAll("[data-tasks]")].map((node) => ({ node, tasks: tasksOf(node) }));
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
      const readings = tasks.map((number) => (i < 0 ? null : data.rounds.hrls_competence[number][i]));
      const known = readings.filter((value) => value !== null);
      const least = known.length && data.threshold > 0 ? Math.min(...known) / data.threshold : 0;
      const share = Math.max(0, Math.min(least, 1));
      ring.setAttribute("stroke-dasharray", `${share.toFixed(3)} 1`);
      const text = known.map((value) => short(value)).join(" ");
      node.querySelector(".readiness").textContent = text;
      descriptions.push(`${node.querySelector(".name").textContent} ${open ? "admitted" : "waiting"}${text && `, ${text}`}`);
    }
    root.setAttribute("aria-label", `Language graph at step ${integer(stepAt(data, i))}. ${descriptions.join("; ")}`);
  };
}
