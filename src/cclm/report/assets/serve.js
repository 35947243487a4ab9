// The page of the service: translates what is in the text field while it is being typed.

const WAIT = 250; // milliseconds without typing before the text is sent
const MOST_RETRIES = 5;
const ALL = "*"; // the option for every target language
const at = (id) => document.getElementById(id);
const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });

// The code that browsers and screen readers know: "az" for "aze".
function tag(code) {
  try {
    return Intl.getCanonicalLocales(code.replaceAll("_", "-"))[0];
  } catch {
    return null;
  }
}

function languageName(code) {
  const known = tag(code);
  return (known && names.of(known)) || code;
}

const byName = (codes) => codes.toSorted((a, b) => languageName(a).localeCompare(languageName(b), "en"));

class Page {
  constructor(offered) {
    this.models = offered.models;
    this.most = offered.most_characters;
    this.number = 0; // of the newest request: answers to older ones are dropped
    this.request = null;
    this.timer = null;
    this.listen();
    this.chooseModel(new URLSearchParams(location.hash.slice(1)));
    this.textChanged();
  }

  listen() {
    at("text").addEventListener("input", () => this.textChanged());
    at("model")?.addEventListener("change", () => this.chooseModel(this.choice()));
    at("source").addEventListener("change", () => this.chooseSource(this.choice()));
    at("target").addEventListener("change", () => this.languagesChanged());
    at("swap").addEventListener("click", () => this.swap());
    at("clear").addEventListener("click", () => {
      at("text").value = "";
      at("text").focus();
      this.textChanged();
    });
    document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("resize", () => this.fitText());
  }

  get model() {
    return this.models.find((model) => model.name === at("model")?.value) || this.models[0];
  }

  targets(source = at("source").value) {
    return this.model.languages.find((language) => language.source === source)?.targets || [];
  }

  // What is chosen now, in the form in which the address has it.
  choice() {
    return new URLSearchParams({ model: this.model.name, source: at("source").value, target: at("target").value });
  }

  chooseModel(wanted) {
    if (at("model") && this.models.some((model) => model.name === wanted.get("model"))) at("model").value = wanted.get("model");
    const sources = byName(this.model.languages.map((language) => language.source));
    at("source").replaceChildren(...sources.map((code) => html("option", { value: code }, languageName(code))));
    if (sources.includes(wanted.get("source"))) at("source").value = wanted.get("source");
    this.chooseSource(wanted);
  }

  chooseSource(wanted) {
    const targets = this.targets();
    const zeroShot = new Set(targets.filter((one) => one.zero_shot).map((one) => one.target));
    const codes = byName(targets.map((one) => one.target));
    const label = (code) => languageName(code) + (zeroShot.has(code) ? " (zero-shot)" : "");
    const options = codes.map((code) => html("option", { value: code }, label(code)));
    if (codes.length > 1) options.unshift(html("option", { value: ALL }, `All ${codes.length} languages`));
    at("target").replaceChildren(...options);
    const trained = codes.find((code) => !zeroShot.has(code));
    const first = zeroShot.size ? trained : options[0]?.value;
    at("target").value = codes.includes(wanted.get("target")) || wanted.get("target") === ALL ? wanted.get("target") : first;
    if (!at("target").value) at("target").value = first;
    this.languagesChanged();
  }

  languagesChanged() {
    const target = at("target").value;
    at("swap").hidden = !this.targets(target).some((one) => one.target === at("source").value);
    at("text").lang = tag(at("source").value) || "";
    history.replaceState(null, "", `#${this.choice()}`);
    this.send();
  }

  swap() {
    const [source, target] = [at("target").value, at("source").value];
    const text = document.querySelector(".translation")?.textContent;
    if (text) at("text").value = text;
    at("source").value = source;
    this.chooseSource(new URLSearchParams({ target }));
    this.textChanged();
  }

  textChanged() {
    const length = [...at("text").value].length;
    at("length").textContent = length > this.most * 0.8 ? `${integer(length)} of ${integer(this.most)} characters` : "";
    at("clear").hidden = !length;
    this.fitText();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), WAIT);
    if (length) at("translations").classList.add("stale");
  }

  // The text field grows with its text, so that both sides scroll together with the page.
  fitText() {
    const field = at("text");
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }

  async send(retries = 0) {
    clearTimeout(this.timer);
    this.request?.abort();
    const text = at("text").value;
    const number = ++this.number;
    if (!text.trim()) return this.show([], "");
    at("translations").classList.add("stale");
    this.request = new AbortController();
    try {
      const answer = await this.ask(text, this.request.signal);
      if (number === this.number) this.answered(answer, retries);
    } catch (error) {
      if (number === this.number && error.name !== "AbortError") this.fail("The service does not answer; is it still running?");
    }
  }

  async ask(text, signal) {
    const chosen = at("target").value;
    const target = chosen === ALL ? byName(this.targets().map((one) => one.target)) : chosen;
    const question = { text, source: at("source").value, target, model: this.model.name, n_best: Math.min(this.model.beam, 5) };
    const headers = { "content-type": "application/json" };
    const response = await fetch("/api/translate", { method: "POST", body: JSON.stringify(question), headers, signal });
    return { status: response.status, retryAfter: response.headers.get("retry-after"), content: await response.json() };
  }

  answered({ status, retryAfter, content }, retries) {
    if (status === 200) {
      const milliseconds = Math.max(1, Math.round(content.seconds * 1000));
      const sentences = content.translations[0].sentences.length;
      this.show(content.translations, `${integer(sentences)} ${sentences === 1 ? "sentence" : "sentences"}, ${integer(milliseconds)} ms`);
    } else if (retryAfter && retries < MOST_RETRIES) {
      this.status("The service is busy; trying again", false);
      this.timer = setTimeout(() => this.send(retries + 1), retryAfter * 1000);
    } else {
      this.fail(content.error);
    }
  }

  fail(message) {
    at("translations").classList.add("stale");
    this.status(message, true);
  }

  status(message, isProblem) {
    at("status").textContent = message;
    at("status").classList.toggle("problem", isProblem);
  }

  show(translations, message) {
    const open = new Set([...document.querySelectorAll(".card:has(details[open])")].map((card) => card.dataset.target));
    const isMany = at("target").value === ALL;
    const cards = translations.map((one) => card(one, isMany, open.has(one.target)));
    at("translations").classList.toggle("many", isMany);
    at("translations").replaceChildren(...cards);
    at("translations").classList.remove("stale");
    this.status(message, false);
  }
}

function card(translation, isMany, isOpen) {
  const zeroShot = translation.zero_shot ? html("span", { class: "zero-shot" }, "zero-shot") : null;
  const heading = isMany ? html("h2", {}, languageName(translation.target), zeroShot) : null;
  const text = html("p", { class: "translation", lang: tag(translation.target), dir: "auto" }, translation.text);
  const copy = html("button", { type: "button", class: "copy", "aria-label": `Copy ${languageName(translation.target)}` }, "Copy");
  copy.hidden = !navigator.clipboard; // browsers offer it on this machine and with encryption only
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(translation.text);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  const foot = html("div", { class: "card-foot" }, alternatives(translation, isOpen), copy);
  return html("article", { class: "card", "data-target": translation.target, "aria-label": languageName(translation.target) }, heading, text, foot);
}

function alternatives(translation, isOpen) {
  const sentences = translation.sentences.filter((sentence) => sentence.hypotheses.length);
  const lists = sentences.flatMap((sentence) => [
    sentences.length > 1 ? html("p", { class: "of-sentence", dir: "auto" }, sentence.source) : null,
    html("ol", { class: "hypotheses" }, ...sentence.hypotheses.map((one) => hypothesis(one, tag(translation.target)))),
  ]);
  const about = html("p", { class: "about" }, "Scores: log-probability per token. Nearer to 0 is more certain.");
  const details = html("details", {}, html("summary", {}, "Alternatives and scores"), ...lists, about);
  details.open = isOpen;
  return details;
}

function hypothesis({ text, score }, lang) {
  const meter = html("progress", { class: "meter", max: "1", value: String(Math.exp(score)), "aria-hidden": "true" });
  const shown = score.toFixed(2).replace("-", "−");
  return html("li", {}, html("span", { lang, dir: "auto" }, text || "(nothing)"), html("span", { class: "score" }, meter, shown));
}

fetch("/api/models")
  .then((response) => response.json())
  .then((offered) => new Page(offered))
  .catch((error) => {
    at("status").textContent = `The page could not be set up: ${error.message}`;
  });
