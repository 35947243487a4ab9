// The board: which page this is, and what happens when the window changes.

let redraw = null; // what to do when the window changes, or nothing

window.addEventListener("error", (event) => {
  document.getElementById("live").textContent = `this page could not be drawn in full: ${event.message}`;
});
window.addEventListener("unhandledrejection", (event) => {
  document.getElementById("live").textContent = `this page could not be drawn in full: ${event.reason?.message}`;
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

const { kind, id } = document.body.dataset;
const PAGES = { overview: overviewPage, run: runPage, compare: comparePage, study: groupPage, sweep: groupPage };
PAGES[kind](id);
