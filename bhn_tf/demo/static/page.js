"use strict";

// What the scores of a classifier say, and the most they can be with C classes.
const SCORES = {
  predictive_entropy: ["of the mean, nats", (c) => Math.log(c)],
  expected_entropy: ["what the draws doubt by themselves, nats", (c) => Math.log(c)],
  mutual_information: ["what the draws disagree on, nats", (c) => Math.log(c)],
  max_probability: ["1 − the largest mean", (c) => 1 - 1 / c],
  variation_ratio: ["share of votes against the winner", (c) => 1 - 1 / c],
  mean_std: ["spread over draws, mean over classes", (c) => Math.sqrt(c - 1) / c],
};

const byId = (id) => document.getElementById(id);
const pad = byId("pad");
const ink = pad.getContext("2d", { willReadFrequently: true });
const state = { model: null, seed: 1, isDrawing: false, isImage: false, asked: 0 };

function element(className, ...children) {
  const made = document.createElement("div");
  made.className = className;
  made.append(...children);
  return made;
}

// -- the picture ---------------------------------------------------------------------

function clearPad() {
  ink.fillStyle = "black";
  ink.fillRect(0, 0, pad.width, pad.height);
  state.isImage = false;
}

function place(event) {
  const box = pad.getBoundingClientRect();
  const scale = pad.width / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

function startStroke(event) {
  if (state.isImage) clearPad();
  state.isDrawing = true;
  pad.setPointerCapture(event.pointerId);
  ink.strokeStyle = "white";
  ink.lineWidth = pad.width / 13;
  ink.lineCap = ink.lineJoin = "round";
  ink.beginPath();
  ink.moveTo(...place(event));
  moveStroke(event);
}

function moveStroke(event) {
  if (!state.isDrawing) return;
  ink.lineTo(...place(event));
  ink.stroke();
}

function endStroke() {
  if (!state.isDrawing) return;
  state.isDrawing = false;
  ask();
}

async function openImage(file) {
  let image;
  try {
    image = await createImageBitmap(file);
  } catch {
    say(`${file.name} is no image that this browser can open.`);
    return;
  }
  clearPad();
  const scale = Math.min(pad.width / image.width, pad.height / image.height);
  const [width, height] = [image.width * scale, image.height * scale];
  ink.imageSmoothingQuality = "high";
  ink.drawImage(image, (pad.width - width) / 2, (pad.height - height) / 2, width, height);
  state.isImage = true;
  ask();
}

// The box around what was drawn, or null for an empty pad.
function boxOfInk() {
  const { width, height } = pad;
  const data = ink.getImageData(0, 0, width, height).data;
  let [left, top, right, bottom] = [width, height, -1, -1];
  let [mass, x, y] = [0, 0, 0];
  for (let i = 0; i < width * height; i++) {
    const value = data[4 * i];
    if (!value) continue;
    const column = i % width;
    const row = Math.floor(i / width);
    left = Math.min(left, column);
    right = Math.max(right, column);
    top = Math.min(top, row);
    bottom = Math.max(bottom, row);
    mass += value;
    x += value * column;
    y += value * row;
  }
  if (!mass) return null;
  return { size: Math.max(right - left, bottom - top) + 1, x: x / mass, y: y / mass };
}

// What the model sees: a drawing is centred as the digits of MNIST are, its longer side
// 20 of 28 pixels and its centre of mass in the middle; an image is only resized.
function draw(seen) {
  const context = seen.getContext("2d", { willReadFrequently: true });
  context.filter = byId("invert").checked ? "invert(1)" : "none";
  context.fillStyle = "black";
  context.fillRect(0, 0, seen.width, seen.height);
  context.imageSmoothingQuality = "high";
  const box = state.isImage ? null : boxOfInk();
  if (box === null) {
    context.drawImage(pad, 0, 0, seen.width, seen.height);
  } else {
    const scale = ((20 / 28) * Math.min(seen.width, seen.height)) / box.size;
    const x = seen.width / 2 - box.x * scale;
    const y = seen.height / 2 - box.y * scale;
    context.drawImage(pad, x, y, pad.width * scale, pad.height * scale);
  }
  return context.getImageData(0, 0, seen.width, seen.height).data;
}

function pixels() {
  const data = draw(byId("seen"));
  const values = [];
  for (let i = 0; i < data.length; i += 4) {
    const [red, green, blue] = data.subarray(i, i + 3);
    if (state.model.channels === 3) values.push(red, green, blue);
    else values.push(Math.min(0.2989 * red + 0.587 * green + 0.114 * blue, 255));
  }
  return values;
}

// -- the answer ----------------------------------------------------------------------

function say(text) {
  byId("status").textContent = text;
}

async function ask() {
  const asked = ++state.asked;
  const question = { pixels: pixels(), seed: state.seed };
  if (state.model.promise !== null) question.level = Number(byId("level").value);
  const body = JSON.stringify(question);
  try {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("answer", { method: "POST", headers, body });
    const answer = await response.json();
    // A later question has been asked meanwhile.
    if (asked !== state.asked) return;
    if (!response.ok) throw new Error(answer.error);
    say("");
    show(answer);
  } catch (error) {
    say(`No answer: ${error.message}`);
  }
}

// All classes, or the likeliest where they are many.
function shown(mean) {
  const indices = [...mean.keys()];
  if (mean.length <= 20) return indices;
  return indices.sort((a, b) => mean[b] - mean[a]).slice(0, 10);
}

const nameOf = (index) => state.model.class_names[index];
const largest = (values) => values.indexOf(Math.max(...values));

function bar(share) {
  const fill = element("fill");
  fill.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return element("track", fill);
}

// Four digits, whatever the unit.
const short = (value) => Number(value.toPrecision(4)).toString();

// Bounds of a target, one of which may be missing.
function interval(lower, upper) {
  if (upper === null) return `at least ${short(lower)}`;
  if (lower === null) return `at most ${short(upper)}`;
  return `${short(lower)} … ${short(upper)}`;
}

// What is promised: a chip for each class of the set, or for each target's interval.
function showPromise(answer) {
  const intervals = answer.interval ?? [];
  const texts = intervals.map(([lower, upper], target) => {
    const mean = document.createElement("small");
    mean.textContent = ` mean ${short(answer.mean[target])}`;
    return [interval(lower, upper), mean];
  });
  const names = (answer.set ?? []).map((index) => [state.model.class_names[index]]);
  const chips = [...names, ...texts].map((parts) => {
    const chip = element("held", ...parts);
    chip.setAttribute("role", "listitem");
    return chip;
  });
  byId("held").replaceChildren(...(chips.length ? chips : ["no class"]));
}

function show(answer) {
  if (state.model.promise !== null) showPromise(answer);
  if (state.model.num_classes) showClasses(answer);
}

function showClasses({ mean, scores, samples }) {
  const best = largest(mean);
  const rows = shown(mean).map((index) => {
    const value = mean[index];
    const track = bar(value);
    for (const sample of samples ?? []) {
      const tick = element("tick");
      tick.style.left = `${100 * sample[index]}%`;
      track.append(tick);
    }
    const percent = `${(100 * value).toFixed(1)} %`;
    const row = element("row", element("name", nameOf(index)), track, element("number", percent));
    row.setAttribute("role", "listitem");
    row.classList.toggle("best", index === best);
    return row;
  });
  byId("classes").replaceChildren(...rows);
  if (samples !== null) showVotes(samples.map(largest), best);
  byId("scores").replaceChildren(...Object.entries(scores).map(scoreRow));
}

function showVotes(votes, best) {
  const agreeing = votes.filter((vote) => vote === best).length;
  byId("count").textContent = `${agreeing} of ${votes.length} networks drawn choose ${nameOf(best)}.`;
  const chips = votes.map((vote) => {
    const chip = element("vote", nameOf(vote));
    chip.setAttribute("role", "listitem");
    chip.classList.toggle("other", vote !== best);
    return chip;
  });
  byId("votes").replaceChildren(...chips);
}

function scoreRow([name, value]) {
  const [meaning, most] = SCORES[name] ?? ["", () => 1];
  const head = element("head", name.replaceAll("_", " "), element("number", value.toFixed(3)));
  const small = document.createElement("small");
  small.textContent = meaning;
  const row = element("score", head, bar(value / most(state.model.num_classes)), small);
  row.setAttribute("role", "listitem");
  row.dataset.name = name;
  return row;
}

// -- what a person does --------------------------------------------------------------

pad.addEventListener("pointerdown", startStroke);
pad.addEventListener("pointermove", moveStroke);
pad.addEventListener("pointerup", endStroke);
pad.addEventListener("pointercancel", endStroke);
byId("clear").addEventListener("click", () => { clearPad(); ask(); });
byId("invert").addEventListener("change", ask);
byId("level").addEventListener("change", ask);
byId("again").addEventListener("click", () => { state.seed++; ask(); });
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  if (file) openImage(file);
  // The same file can be opened again.
  event.target.value = "";
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  pad.classList.add("over");
});
document.addEventListener("dragleave", () => pad.classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  pad.classList.remove("over");
  const [file] = event.dataTransfer.files;
  if (file) openImage(file);
});

function startPromise({ kind, levels, level, num_rows }) {
  const what = kind === "set" ? "the class is among these" : "the number is in between";
  const rows = num_rows === null ? "" : ` (${num_rows} pictures)`;
  byId("promise-title").textContent = `What holds: ${what}`;
  byId("promised").textContent = `that come from where the calibration rows came from${rows}.`;
  const options = levels.map((each) => new Option(`${Number((100 * each).toFixed(4))} %`, each));
  byId("level").replaceChildren(...options);
  byId("level").value = level;
  byId("promise").hidden = false;
}

async function start() {
  clearPad();
  try {
    state.model = await (await fetch("model")).json();
  } catch (error) {
    say(`No answer: ${error.message}`);
    return;
  }
  const { width, height, num_classes, metrics, name, has_draws, promise } = state.model;
  [byId("seen").width, byId("seen").height] = [width, height];
  const quality = Object.entries(metrics).map(([metric, value]) => `${metric} ${value}`);
  const classes = num_classes ? [`${num_classes} classes`] : [];
  const facts = [name, `${width} × ${height} pixels`, ...classes, ...quality];
  byId("model").textContent = facts.join(" · ");
  byId("draws").hidden = !has_draws;
  byId("means").hidden = byId("doubt").hidden = !num_classes;
  if (promise !== null) startPromise(promise);
  ask();
}

start();
