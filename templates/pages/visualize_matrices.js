// Matrices: as tables of numbers, or, where there are too many numbers, as pictures of their blocks.
const LABELS = {
  m_tilde: "m̃", l_tilde: "l̃", m_new: "m<sup>new</sup>", l_new: "l<sup>new</sup>", PV: "P̃V",
  S_row: "S", P_row: "P", m_row: "m", l_row: "l",
};

function chipLabel(name, entry) {
  if (LABELS[name]) return LABELS[name];
  const [letter, index] = name.split("_");
  const numbers = [...index].map((axis) => (axis === "i" ? entry.i : entry.j) + 1);
  return `${letter === "P" && data.algorithm !== "standard" ? "P̃" : letter}<sub>${numbers.join(",")}</sub>`;
}

function show(x, places = 2) {
  if (Number.isNaN(x)) return "·";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const text = Math.abs(x) < 1e4 ? x.toFixed(places) : x.toExponential(1);
  return text.replace("-", "−");
}

function element(tag, attributes = {}, html = "") {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.innerHTML = html;
  return made;
}

// A table of numbers. `look(r, c)` gives a cell's classes.
function numberTable(caption, values, look, places, firstRow = 0) {
  const body = values.map((row, r) =>
    `<tr><th scope="row">${firstRow + r + 1}</th>${row.map((x, c) =>
      `<td class="${look(r, c)}">${show(x, places)}</td>`).join("")}</tr>`).join("");
  return element("table", { class: "matrix" }, `<caption>${caption}</caption><tbody>${body}</tbody>`);
}

const within = (value, range) => range !== null && value >= range[0] && value < range[1];
const moved = (step, name, direction, r, c) =>
  (step?.moves ?? []).some(([matrix, way, row0, rows, column0, columns]) =>
    matrix === name && way === direction && r >= row0 && r < row0 + rows && c >= column0 && c < column0 + columns);

// The rows of a matrix in HBM that belong to the block at work.
function liveRows(matrix, step) {
  if (matrix.blocks === "none" || (step?.row !== undefined && matrix.blocks !== "qk")) return null;
  return matrix.blocks === "k" ? keysOf(step) : rowsOf(step);
}

// What an element of a matrix in HBM looks like at a step.
function hbmLook(matrix, step) {
  const rows = liveRows(matrix, step), keys = keysOf(step);
  return (r, c) => {
    const live = matrix.blocks === "qk"
      ? within(r, rows) && (step.row !== undefined || within(c, keys))
      : within(r, rows);
    return [
      live ? "live" : "",
      moved(step, matrix.name, "read", r, c) ? "read" : "",
      moved(step, matrix.name, "write", r, c) ? "written" : "",
    ].join(" ");
  };
}

function drawHbm(place, state, step, count) {
  const tables = data.hbm.map((matrix) =>
    data.numbers
      ? numberTable(hbmCaption(matrix), state.hbm[matrix.name], hbmLook(matrix, step), "QKV".includes(matrix.name) ? 1 : 2)
      : blockPicture(matrix, step, count));
  if (!data.hbm.some((matrix) => matrix.name === "S")) tables.push(scoresMap(step, count));
  place.replaceChildren(...tables);
}

const hbmCaption = (matrix) =>
  `<b>${matrix.name}</b> ${matrix.rows} × ${matrix.columns} × ${matrix.size} B`;

// The N x N scores that never exist in memory: which blocks were, are and will be computed on chip.
function scoresMap(step, count) {
  const look = (row, key) => {
    const i = Math.floor(row / data.br), j = Math.floor(key / data.bc);
    if (key >= data.visible[row]) return "skipped";
    if (step?.i === i && step?.j === j) return "live";
    return (lastVisit.get(`${i},${j}`) ?? Infinity) < count ? "done" : "";
  };
  if (!data.numbers) return scoresPicture(step, count);
  const rows = Array.from({ length: data.n }, (_, row) =>
    `<tr>${Array.from({ length: data.nk }, (_, key) => `<td class="${look(row, key)}"></td>`).join("")}</tr>`);
  const key = data.visible.some((count) => count < data.nk)
    ? ["done", "live", "skipped"] : ["done", "live"];
  const names = { done: words.done, live: words.live, skipped: words.hidden };
  const legend = key.map((name) => `<span class="key ${name}"></span>${names[name]}`).join(" ");
  const table = element("table", { class: "matrix map", "aria-hidden": "true" }, `<tbody>${rows.join("")}</tbody>`);
  const figure = element("figure", {}, `<figcaption>${words.scores_map}</figcaption>`);
  figure.append(table, element("p", { class: "legend" }, legend));
  return figure;
}

function drawChip(place, state, before) {
  const changed = (name) => JSON.stringify(state.chip[name]?.values) !== JSON.stringify(before.chip[name]?.values);
  const table = (name) => {
    const { values, ...entry } = state.chip[name];
    const firstRow = "KV".includes(name[0]) ? (entry.j ?? 0) * data.bc
      : name.endsWith("_row") ? entry.row ?? 0 : (entry.i ?? 0) * data.br;
    const look = () => (changed(name) ? "live" : "");
    const places = ["Q_i", "K_j", "V_j"].includes(name) ? 1 : 2;
    return numberTable(`<b>${chipLabel(name, entry)}</b> ${values.length} × ${values[0]?.length ?? 0}`, values, look, places, firstRow);
  };
  const tiles = TILES.filter((name) => state.chip[name]).map(table);
  const registers = REGISTERS.filter((name) => state.chip[name]).map(table);
  const group = element("div", { class: "registers" }, registers.length > 0 ? `<h3>${words.registers}</h3>` : "");
  const inner = element("div", { class: "matrices" });
  inner.append(...registers);
  group.append(inner);
  place.replaceChildren(...tiles, ...(registers.length > 0 ? [group] : []));
}
