"use strict";
// Creates elements, formats numbers, computes scales. Strings are always inserted as text nodes, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, typeof value === "number" ? String(Math.round(value * 10) / 10) : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function html(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

const integer = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 0 });

function short(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 1000 ? value.toFixed(digits) : value.toPrecision(2);
}

function large(value) {
  for (const [size, unit] of [[1e9, "billion"], [1e6, "million"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return integer(value);
}

function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

// Dashes mark LRLs; with two directions per language, they mark the direction out of the pivot instead.
function dash(language) {
  const patterns = ["6 3", "2 2.5", "9 3 2 3", "1 4"];
  if (language.way) return language.way === "out" ? patterns[0] : null;
  if (language.side === "lrl") return patterns[Math.max(language.variant - 1, 0) % patterns.length];
  return language.family < 8 ? null : patterns[Math.floor(language.family / 8) % patterns.length];
}

function ticks(low, high, about) {
  const rough = (high - low) / Math.max(about, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

// A function from values to pixels; `powers` makes it logarithmic.
function scale(low, high, from, to, powers = false) {
  const shape = powers ? Math.log2 : (value) => value;
  const [a, b] = [shape(low), shape(high)];
  return (value) => from + ((shape(value) - a) / (b - a || 1)) * (to - from);
}

// Positions of labels at least `gap` apart, within [top, bottom] and in the order of the wanted positions.
function spreadApart(wanted, gap, top, bottom) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const positions = wanted.slice();
  let least = top;
  for (const i of order) least = (positions[i] = Math.max(positions[i], least)) + gap;
  let most = bottom;
  for (const i of order.slice().reverse()) most = (positions[i] = Math.min(positions[i], most)) - gap;
  return positions;
}
