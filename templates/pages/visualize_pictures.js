// Pictures of blocks, for matrices with too many numbers to show.
const PICTURE = 190;  // CSS pixels of the longer side
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function canvas(width, height, label, draw) {
  const made = element("canvas", { role: "img", "aria-label": label });
  const ratio = window.devicePixelRatio || 1;
  made.width = Math.round(width * ratio);
  made.height = Math.round(height * ratio);
  made.style.width = `${width}px`;
  made.style.height = `${height}px`;
  const context = made.getContext("2d");
  context.scale(ratio, ratio);
  context.fillStyle = colour("panel");
  context.fillRect(0, 0, width, height);
  draw(context);
  context.strokeStyle = colour("quiet");
  context.strokeRect(0.5, 0.5, width - 1, height - 1);
  return made;
}

function figure(picture, caption) {
  const made = element("figure", {}, `<figcaption>${caption}</figcaption>`);
  made.append(picture);
  return made;
}

// Lines between blocks, if there is room for them.
function grid(context, width, height, columns, rows) {
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  for (const [count, length, draw] of [[columns, width, (at) => [at, 0, at, height]], [rows, height, (at) => [0, at, width, at]]]) {
    if (length / count < 4) continue;
    for (let index = 1; index < count; ++index) {
      const [x0, y0, x1, y1] = draw(Math.round((index * length) / count) + 0.5);
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    }
  }
}

const pictureScale = () => PICTURE / Math.max(data.n, data.nk);

function blockPicture(matrix, step) {
  const scale = pictureScale(), square = matrix.blocks === "qk";
  const height = Math.max(matrix.rows * scale, 8);
  const width = square ? Math.max(matrix.columns * scale, 8) : matrix.columns === 1 ? 8 : 36;
  const block = matrix.blocks === "k" ? data.bc : data.br;
  const live = liveRows(matrix, step);
  const moves = (step?.moves ?? []).filter(([name]) => name === matrix.name);
  const picture = canvas(width, height, hbmCaption(matrix).replace(/<[^>]*>/g, ""), (context) => {
    if (live !== null && !(square && step.row === undefined)) {
      context.fillStyle = colour("live");
      context.fillRect(0, live[0] * scale, width, (live[1] - live[0]) * scale);
    }
    for (const [, direction, row0, rows, column0, columns] of moves) {
      context.fillStyle = colour(direction === "read" ? "read" : "write");
      const x = square ? column0 * scale : 0, w = square ? Math.max(columns * scale, 1) : width;
      context.fillRect(x, row0 * scale, w, Math.max(rows * scale, 1));
    }
    grid(context, width, height, square ? Math.ceil(data.nk / data.bc) : 1, Math.ceil(matrix.rows / block));
  });
  return figure(picture, hbmCaption(matrix).replace("</b> ", "</b><br>"));
}

function scoresPicture(step, count) {
  const scale = pictureScale(), width = Math.max(data.nk * scale, 8), height = Math.max(data.n * scale, 8);
  const picture = canvas(width, height, words.scores_map, (context) => {
    for (let row0 = 0, i = 0; row0 < data.n; row0 += data.br, ++i)
      for (let key0 = 0, j = 0; key0 < data.nk; key0 += data.bc, ++j) {
        const visit = lastVisit.get(`${i},${j}`);
        const state = visit === undefined ? "skipped"
          : step?.i === i && step?.j === j ? "live-edge"
          : visit < count ? "done" : null;
        if (state === null) continue;
        context.fillStyle = colour(state);
        context.fillRect(key0 * scale, row0 * scale,
          (Math.min(key0 + data.bc, data.nk) - key0) * scale, (Math.min(row0 + data.br, data.n) - row0) * scale);
      }
    grid(context, width, height, Math.ceil(data.nk / data.bc), Math.ceil(data.n / data.br));
  });
  return figure(picture, words.scores_map);
}

// On chip, without numbers: the tiles of the footprint, to scale.
function drawTiles(place) {
  const largest = Math.max(...data.tiles.map(([, size]) => size));
  place.replaceChildren(...data.tiles.map(([name, size]) => {
    const side = Math.max(Math.sqrt(size / largest) * 80, 6);
    const box = element("div", { class: "tile" });
    box.style.width = box.style.height = `${side}px`;
    return figure(box, `<b>${name}</b> ${size.toLocaleString("en")} B`);
  }));
}
