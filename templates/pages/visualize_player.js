// Playing the run: position, buttons, keys, and everything that is drawn anew at each step.
const $ = (id) => document.getElementById(id);
const lines = new Map([...document.querySelectorAll(".algorithm li")].map((item) => [Number(item.id.slice(5)), item]));
let position = 0, chosenRow = 0, timer = null;

const count = (size) => size.toLocaleString("en");
const range = (first, rows) => rows === 1 ? say("row", { first: first + 1 }) : say("rows", { first: first + 1, last: first + rows });

function drawNow(step) {
  for (const [number, item] of lines) {
    const current = step !== null && step.line === number;
    item.classList.toggle("live", current);
    if (current) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  }
  if (step === null) {
    $("now-title").textContent = words.start_title;
    $("now-formula").innerHTML = "";
    $("now-text").textContent = words.start_text;
    return;
  }
  const line = lines.get(step.line);
  const where = [
    line.querySelector(".label").textContent,
    ...(step.j !== undefined ? [say("block_j", { j: step.j + 1 })] : []),
    ...(step.i !== undefined ? [say("block_i", { i: step.i + 1 })] : []),
    ...(step.row !== undefined ? [say("row", { first: step.row + 1 })] : []),
  ];
  $("now-title").textContent = where.join(" · ");
  $("now-formula").innerHTML = line.querySelector(".formula").innerHTML;
  $("now-text").innerHTML = line.querySelector("template").innerHTML;
}

function drawMoves(step) {
  const items = (step?.moves ?? []).map(([name, direction, row0, rows, , , size]) => {
    const to = direction === "read" ? words.to_chip : words.to_hbm;
    const arrow = direction === "read" ? "↓" : "↑";
    return element("li", { class: direction },
      `<span aria-hidden="true">${arrow}</span> <b>${name}</b> ${range(row0, rows)} ${to}, ${say("bytes", { bytes: count(size) })}`);
  });
  $("moves").replaceChildren(...(items.length > 0 ? items : [element("li", { class: "quiet" }, step === null ? "" : words.nothing_moves)]));
}

function drawNumbers(step, state, before) {
  $("numbers").hidden = !data.numbers;
  if (!data.numbers) return;
  const rows = step !== null && step.i !== undefined ? rowsOf(step) : null;
  const choices = rows === null ? [] : Array.from({ length: rows[1] - rows[0] }, (_, r) => r);
  if (chosenRow >= choices.length) chosenRow = 0;
  $("rows").replaceChildren(...choices.map((r) => {
    const label = element("label", {}, `<input type="radio" name="row" value="${r}"> ${say("row", { first: rows[0] + r + 1 })}`);
    const radio = label.querySelector("input");
    radio.checked = r === chosenRow;
    radio.addEventListener("change", () => { chosenRow = r; draw(); $("rows").querySelector(`[value="${r}"]`).focus(); });
    return label;
  }));
  const filled = step === null ? [] : filledIn(step, state, before, chosenRow);
  $("filled").innerHTML = filled.length > 0
    ? filled.map((line) => `<p>${line}</p>`).join("") : `<p class="quiet">${words.formula_none}</p>`;
  const table = step === null ? null : stateTable(step, state, before);
  $("state-title").hidden = table === null;
  $("state").replaceChildren(...(table === null ? [] : [table]));
}

function bar(label, value, whole, kind) {
  const share = whole > 0 ? (100 * value) / whole : 0;
  return `<div class="bar ${kind}"><span>${label}</span><span class="track" aria-hidden="true"><span style="width:${share}%"></span></span><span>${count(value)}</span></div>`;
}

function drawTraffic() {
  const read = bytesRead[position], written = bytesWritten[position];
  const { read: allRead, written: allWritten } = data.expected;
  const equal = position === steps.length && read === allRead && written === allWritten ? `, ${words.equal}` : "";
  $("traffic").innerHTML =
    bar(words.read, read, allRead, "read") + bar(words.written, written, allWritten, "written") +
    `<p>${words.total}: <b id="total-bytes">${count(read + written)}</b> · ${words.expected}: ${count(allRead + allWritten)}${equal}</p>`;
}

function drawResult(state) {
  if (position < steps.length) { $("result").textContent = words.result_wait; $("result").className = "quiet"; return; }
  let error = data.error;
  if (data.numbers) {
    const o = state.hbm[data.output];
    error = Math.max(0, ...data.reference.flatMap((row, r) => row.map((x, c) => Math.abs(o[r][c] - x))));
  }
  const good = error <= data.tolerance;
  $("result").className = good ? "good" : "bad";
  $("result").textContent = say(good ? "result_text" : "result_bad",
    { error: error.toExponential(1), tolerance: data.tolerance.toExponential(1) });
}

function draw() {
  const step = position > 0 ? steps[position - 1] : null;
  const state = stateAfter(position), before = stateAfter(Math.max(position - 1, 0));
  drawNow(step);
  drawHbm($("hbm"), state, step, position);
  if (data.numbers) drawChip($("sram"), state, before);
  else drawTiles($("sram"));
  drawMoves(step);
  drawNumbers(step, state, before);
  drawTraffic();
  drawResult(state);
  const text = say("of", { step: position, steps: steps.length });
  $("slider").value = position;
  $("slider").setAttribute("aria-valuetext", `${text}, ${$("now-title").textContent}`);
  $("position").textContent = text;
}

function go(to) {
  position = Math.min(Math.max(to, 0), steps.length);
  if (position === steps.length) pause();
  draw();
}

// While playing, a screen reader would be talked over: the live region is quiet then.
function play() {
  if (position === steps.length) position = 0;
  $("now").setAttribute("aria-live", "off");
  $("play").textContent = words.pause;
  const tick = () => {
    timer = setTimeout(tick, 1100 / Number($("speed").value));
    go(position + 1);
  };
  timer = setTimeout(tick, 0);
}

function pause() {
  clearTimeout(timer);
  timer = null;
  $("now").setAttribute("aria-live", "polite");
  $("play").textContent = words.play;
}

const toggle = () => (timer === null ? play() : pause());
const by = (distance) => { pause(); go(position + distance); };
function changeSpeed(distance) {
  const speed = $("speed");
  speed.selectedIndex = Math.min(Math.max(speed.selectedIndex + distance, 0), speed.options.length - 1);
}

const KEYS = {
  " ": toggle, ArrowLeft: () => by(-1), ArrowRight: () => by(1), Home: () => by(-Infinity), End: () => by(Infinity),
  "+": () => changeSpeed(1), "=": () => changeSpeed(1), "-": () => changeSpeed(-1),
};
document.addEventListener("keydown", (event) => {
  const at = event.target;
  // A control that has its own use for the key keeps it; a slider's arrows step just the same.
  const own = at.matches("select, input[type=radio]") || (at.matches("button") && event.key === " ");
  if (own || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

$("first").addEventListener("click", () => by(-Infinity));
$("back").addEventListener("click", () => by(-1));
$("forward").addEventListener("click", () => by(1));
$("last").addEventListener("click", () => by(Infinity));
$("play").addEventListener("click", toggle);
$("slider").max = steps.length;
$("slider").addEventListener("input", () => { pause(); go(Number($("slider").value)); });
$("theme").addEventListener("change", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

const used = data.footprint, whole = Math.max(data.budget ?? used, used);
$("budget-bar").innerHTML = data.tiles.map(([name, size]) => `<span style="width:${(100 * size) / whole}%">${name}</span>`).join("");
$("budget-text").textContent = data.budget === null
  ? say("budget_none", { used: count(used) }) : say("budget_of", { used: count(used), budget: count(data.budget) });
const most = Math.max(...data.compared.map((row) => row.bytes));
$("compared").innerHTML = data.compared.map((row) => bar(row.algorithm, row.bytes, most, row.this ? "this" : "other")).join("");

const named = /^#step=(\d+)$/.exec(location.hash);
go(named === null ? 0 : Number(named[1]));
