"use strict";

const form = document.getElementById("inputs");
const byId = (id) => document.getElementById(id);
const numbers = ["capacity", "leakRate", "maxWait", "rate", "burst", "duration", "attempts", "retryEvery", "jitter"];
const choices = ["use", "pattern"];

// Fields that have no effect are hidden, and do not count.
function applies(name) {
  const field = byId(name).closest("[data-only]");
  if (!field) return true;
  const [, other, relation, value] = /^(\w+)([=>])(\w+)$/.exec(field.dataset.only);
  return relation === "=" ? byId(other).value === value : Number(byId(other).value) > Number(value);
}

function inputs() {
  const all = {};
  for (const name of choices) all[name] = byId(name).value;
  for (const name of numbers) all[name] = applies(name) ? byId(name).valueAsNumber : 0;
  return all;
}

// The flags of the command with the same inputs and the same answer.
function flagsOf(all) {
  const flags = [`--capacity ${all.capacity}`, `--leak-rate ${all.leakRate}`];
  if (all.use === "queue") flags.push("--queue");
  if (all.maxWait > 0) flags.push(`--max-wait ${all.maxWait}ms`);
  if (all.pattern !== "constant") flags.push(`--pattern ${all.pattern}`);
  flags.push(`--rate ${all.rate}`);
  if (all.burst > 0) flags.push(`--burst ${all.burst}`);
  flags.push(`--duration ${all.duration}ms`);
  if (all.attempts > 1) flags.push(`--attempts ${all.attempts}`);
  if (all.retryEvery > 0) flags.push(`--retry-every ${all.retryEvery}ms`);
  if (all.jitter > 0) flags.push(`--jitter ${all.jitter}`);
  return flags;
}

// The width of a picture in pixels, so that its text is as large as that of the page.
function pictureWidth() {
  return Math.max(300, Math.min(850, byId("level").clientWidth));
}

function seconds(s) {
  return s < 1 ? Math.round(s * 1000) + " ms" : (Math.round(s * 1000) / 1000) + " s";
}

function show(all, result) {
  const summary = byId("summary");
  summary.classList.toggle("error", "error" in result);
  if ("error" in result) {
    summary.textContent = "This cannot be simulated: " + result.error + ".";
    return;
  }
  const share = (100 * result.share).toFixed(2);
  summary.textContent = `${result.accepted} of ${result.attempts} attempts are accepted, and ${result.refused} refused (${share}\u00a0%). ` +
    `${result.served} of ${result.callers} callers are served.`;
  byId("level").innerHTML = result.level;
  byId("rates").innerHTML = result.rates;
  const rows = [
    ["Callers", result.callers], ["Attempts", result.attempts], ["Refused attempts", `${result.refused} (${share} %)`],
    ["Callers served", result.served], ["Callers who gave up", result.gaveUp],
    ["Mean wait of those served", seconds(result.meanWait)], ["Longest wait", seconds(result.longestWait)],
    ["Most attempts within a second", result.busiest],
  ];
  byId("numbers").replaceChildren(...rows.map(([name, value]) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const cell = document.createElement("td");
    cell.textContent = value;
    row.append(head, cell);
    return row;
  }));
  byId("command").replaceChildren("brim simulate", ...flagsOf(all).flatMap((flag) => {
    const whole = document.createElement("span"); // a line breaks between flags, and not within one
    whole.textContent = flag;
    return [" ", whole];
  }));
}

function update() {
  for (const field of form.querySelectorAll("[data-only]")) {
    field.hidden = !applies(field.querySelector("input").id);
  }
  for (const slider of form.querySelectorAll("input[type=range]")) {
    const value = byId(slider.dataset.for).valueAsNumber;
    if (!Number.isNaN(value)) slider.value = value;
  }
  const bad = numbers.find((name) => applies(name) && !byId(name).checkValidity());
  const all = inputs();
  if (bad) {
    const field = byId(bad);
    const name = field.getAttribute("aria-label") || field.labels[0].textContent;
    show(all, { error: `"${name}" is not a number in its range` });
    return;
  }
  show(all, brimSimulate({ ...all, width: pictureWidth() }));
}

form.addEventListener("input", (event) => {
  const target = event.target.dataset.for;
  if (target) byId(target).value = event.target.value;
  update();
});
form.addEventListener("submit", (event) => event.preventDefault());

async function start() {
  if (typeof Go === "undefined") throw new Error("wasm_exec.js is missing; run make playground first");
  const go = new Go();
  const response = await fetch("playground.wasm");
  if (!response.ok) throw new Error(`playground.wasm: ${response.status}; run make playground first`);
  const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
  go.run(instance);
  update();
  new ResizeObserver(update).observe(byId("level"));
}

start().catch((error) => show(inputs(), { error: error.message }));
