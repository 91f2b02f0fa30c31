// The run: what is in memory, what is on chip and what has moved after each step.
const data = JSON.parse(document.getElementById("data").textContent);
const words = data.words;
const steps = data.steps;
const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const number = (x) => (x === "-inf" ? -Infinity : x === "inf" ? Infinity : x === null ? NaN : x);
const decoded = (rows) => rows.map((row) => row.map(number));

const TILES = ["Q_i", "K_j", "V_j", "S_ij", "P_ij", "O_i", "l_i", "m_i"];
const REGISTERS = ["m_tilde", "l_tilde", "m_new", "l_new", "PV", "L_i", "S_row", "m_row", "l_row", "P_row"];

// Bytes read and written before step k, for every k: prefix sums.
const bytesRead = [0], bytesWritten = [0];
for (const step of steps) {
  const total = (direction) =>
    (step.moves ?? []).reduce((sum, move) => sum + (move[1] === direction ? move[6] : 0), 0);
  bytesRead.push(bytesRead.at(-1) + total("read"));
  bytesWritten.push(bytesWritten.at(-1) + total("write"));
}

// The last step at which block (i, j) is at work, to tell done blocks from those to come.
const lastVisit = new Map();
steps.forEach((step, index) => {
  if (step.i !== undefined && step.j !== undefined) lastVisit.set(`${step.i},${step.j}`, index);
});

// Everything after the first `count` steps. `chip` maps a name to its values and the blocks that they are of.
function stateAfter(count) {
  const hbm = {}, chip = {};
  if (!data.numbers) return { hbm, chip };
  for (const matrix of data.hbm)
    hbm[matrix.name] = matrix.values === null
      ? Array.from({ length: matrix.rows }, () => Array(matrix.columns).fill(NaN))
      : decoded(matrix.values);
  let previous = {};
  for (const step of steps.slice(0, count)) {
    // Registers do not outlive the blocks that they were computed for.
    if (step.i !== previous.i || step.j !== previous.j || step.row !== previous.row)
      for (const name of REGISTERS) delete chip[name];
    previous = step;
    for (const [name, values] of Object.entries(step.chip ?? {}))
      chip[name] = { values: decoded(values), i: step.i, j: step.j, row: step.row };
    if (step.chip?.P_ij) delete chip.S_ij;  // P~_ij takes the place of S_ij
    if (step.chip?.S_ij) delete chip.P_ij;
    for (const [name, direction, row0, , column0, , , values] of step.moves ?? [])
      if (direction === "write")
        decoded(values).forEach((row, r) => row.forEach((x, c) => { hbm[name][row0 + r][column0 + c] = x; }));
  }
  return { hbm, chip };
}

const blockOf = (index, size, length) => [index * size, Math.min((index + 1) * size, length)];
const rowsOf = (step) =>
  step === null ? null
    : step.i !== undefined ? blockOf(step.i, data.br, data.n)
    : step.row !== undefined ? [step.row, step.row + 1]
    : null;
const keysOf = (step) => (step === null || step.j === undefined ? null : blockOf(step.j, data.bc, data.nk));
