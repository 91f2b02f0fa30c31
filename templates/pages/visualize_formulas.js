// A step's formula with the numbers of one row filled in.
const n3 = (x) => show(x, 3);
const vector = (values) => `[${values.map(n3).join(", ")}]`;
const inBrackets = (x) => (x < 0 ? `(${n3(x)})` : n3(x));
// e^(x - reference), 0 where there is nothing to weigh: as the kernels have it.
const weight = (x, reference) => (x === -Infinity || reference === -Infinity ? 0 : Math.exp(x - reference));
const power = (x, reference) => `e<sup>${n3(x)} − ${inBrackets(reference)}</sup>`;

// Lines of HTML for row `r` of the block at work, or an empty list.
function filledIn(step, state, before, r) {
  const now = (name) => state.chip[name]?.values[r], then = (name) => before.chip[name]?.values[r];
  const formula = FORMULAS[data.algorithm][step.line];
  return formula ? formula({ step, now, then, r, state, before }) : [];
}

function scoreLines({ state, now, step, r }) {
  const q = now("Q_i"), keys = state.chip.K_j?.values, s = state.chip.S_ij?.values[r];
  if (!q || !keys || !s || step.i === undefined) return [];
  const row = step.i * data.br + r, key0 = step.j * data.bc;
  const seen = keys.map((_, c) => c).filter((c) => key0 + c < data.visible[row]);
  return seen.slice(0, 4).map((c) => {
    const products = q.map((x, d) => `${show(x, 1)}·${show(keys[c][d], 1)}`).join(" + ");
    return `<i>S</i><sub>${row + 1},${key0 + c + 1}</sub> = ${n3(data.scale)} × (${products}) = <b>${n3(s[c])}</b>`;
  });
}

function statisticLines({ now, before, r }) {
  const s = before.chip.S_ij?.values[r], m = now("m_tilde")[0];
  if (!s) return [];
  return [
    `<i>m̃</i> = max(${s.map(n3).join(", ")}) = <b>${n3(m)}</b>`,
    `<i>P̃</i> = e<sup><i>S</i> − <i>m̃</i></sup> = <b>${vector(now("P_ij"))}</b>`,
    `<i>l̃</i> = ${now("P_ij").map(n3).join(" + ")} = <b>${n3(now("l_tilde")[0])}</b>`,
  ];
}

function joinLines({ now }) {
  const [m, l, mt, lt, mn, ln] = ["m_i", "l_i", "m_tilde", "l_tilde", "m_new", "l_new"].map((name) => now(name)[0]);
  return [
    `<i>m</i><sup>new</sup> = max(${n3(m)}, ${n3(mt)}) = <b>${n3(mn)}</b>`,
    `<i>l</i><sup>new</sup> = ${power(m, mn)} · ${n3(l)} + ${power(mt, mn)} · ${n3(lt)} = <b>${n3(ln)}</b>`,
  ];
}

function outputLines({ now, then }) {
  const [m, l, mt, mn, ln] = ["m_i", "l_i", "m_tilde", "m_new", "l_new"].map((name) => now(name)[0]);
  return [
    `<i>O</i> ← ( <i>l</i> e<sup><i>m</i> − <i>m</i><sup>new</sup></sup> <i>O</i> + e<sup><i>m̃</i> − <i>m</i><sup>new</sup></sup> <i>P̃V</i> ) / <i>l</i><sup>new</sup>`,
    `= ( ${n3(l * weight(m, mn))} · ${vector(then("O_i"))} + ${n3(weight(mt, mn))} · ${vector(now("PV"))} ) / ${n3(ln)}`,
    `= <b>${vector(now("O_i"))}</b>`,
  ];
}

const storeLines = ({ now, then }) => [
  `<i>l</i> ← <b>${n3(now("l_i")[0])}</b> <span class="quiet">(${n3(then("l_i")[0])})</span>`,
  `<i>m</i> ← <b>${n3(now("m_i")[0])}</b> <span class="quiet">(${n3(then("m_i")[0])})</span>`,
];

function runningLines({ now, then, before, r }) {
  const s = before.chip.S_ij?.values[r];
  if (!s) return [];
  const [m, l, mn] = [then("m_i")[0], then("l_i")[0], now("m_new")[0]];
  return [
    `<i>m</i><sup>new</sup> = max(${n3(m)}, ${s.map(n3).join(", ")}) = <b>${n3(mn)}</b>`,
    `<i>P̃</i> = e<sup><i>S</i> − <i>m</i><sup>new</sup></sup> = <b>${vector(now("P_ij"))}</b>`,
    `<i>l</i> = ${power(m, mn)} · ${n3(l)} + ${n3(now("l_tilde")[0])} = <b>${n3(now("l_i")[0])}</b>`,
  ];
}

function accumulateLines({ now, then }) {
  const m = then("m_i")[0], mn = now("m_new")[0];
  return [
    `<i>O</i> ← e<sup><i>m</i> − <i>m</i><sup>new</sup></sup> <i>O</i> + <i>P̃V</i>`,
    `= ${n3(weight(m, mn))} · ${vector(then("O_i"))} + ${vector(now("PV"))} = <b>${vector(now("O_i"))}</b>`,
  ];
}

const divideLines = ({ now, then }) => [
  `<i>O</i> ← ${vector(then("O_i"))} / ${n3(now("l_i")[0])} = <b>${vector(now("O_i"))}</b>`,
];
const logLines = ({ now }) => [
  `<i>L</i> = ${n3(now("m_i")[0])} + ln ${n3(now("l_i")[0])} = <b>${n3(now("L_i")[0])}</b>`,
];

function softmaxLines({ state }) {
  const row = (name) => state.chip[name]?.values[0];
  if (!row("S_row")) return [];
  const m = row("m_row")[0], l = row("l_row")[0];
  return [
    `<i>m</i> = max(${row("S_row").map(n3).join(", ")}) = <b>${n3(m)}</b>`,
    `<i>l</i> = Σ e<sup><i>S</i> − <i>m</i></sup> = <b>${n3(l)}</b>`,
    `<i>P</i> = e<sup><i>S</i> − <i>m</i></sup> / <i>l</i> = <b>${vector(row("P_row"))}</b>`,
  ];
}

function weighLines({ step, now }) {
  if (step.j === undefined || !now("P_ij")) return [];
  return [`<i>O</i> ← <i>O</i> + <i>P V</i>, &nbsp; <i>P</i> = ${vector(now("P_ij"))}`, `<i>O</i> = <b>${vector(now("O_i"))}</b>`];
}

const FORMULAS = {
  standard: { 1: scoreLines, 2: softmaxLines, 3: weighLines },
  fa1: { 9: scoreLines, 10: statisticLines, 11: joinLines, 12: outputLines, 13: storeLines },
  fa2: { 8: scoreLines, 9: runningLines, 10: accumulateLines, 12: divideLines, 13: logLines },
};

// m, l and O of the block's rows, before and after the step.
function stateTable(step, state, before) {
  const names = ["m_i", "l_i", "O_i"].filter((name) => state.chip[name]);
  const rows = rowsOf(step);
  if (names.length === 0 || rows === null || step.i === undefined) return null;
  const cell = (from, name, r) => {
    const entry = from.chip[name];
    if (!entry || entry.i !== step.i || !entry.values[r]) return "·";
    return entry.values[r].map((x) => show(x, name === "O_i" ? 2 : 3)).join(" ");
  };
  const line = (name, r) => {
    const [was, is] = [cell(before, name, r), cell(state, name, r)];
    return `<th scope="row"><i>${name[0]}</i></th><td>${was}</td><td class="${was === is ? "" : "live"}">${is}</td>`;
  };
  const body = Array.from({ length: rows[1] - rows[0] }, (_, r) => names.map((name, index) =>
    `<tr class="${index === 0 ? "begins" : ""}">${index > 0 ? "" :
      `<th scope="rowgroup" rowspan="${names.length}">${say("row", { first: rows[0] + r + 1 })}</th>`}${line(name, r)}</tr>`)
    .join("")).join("");
  return element("table", { class: "state" },
    `<thead><tr><th></th><th></th><th scope="col">${words.before}</th><th scope="col">${words.after}</th></tr></thead><tbody>${body}</tbody>`);
}
