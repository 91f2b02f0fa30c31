// Choosing a line of the algorithm lights its code, and brings it into view.
(() => {
  const rows = [...document.querySelectorAll(".row")];
  const lines = [...document.querySelectorAll(".line")];
  const frame = document.querySelector(".code");

  function choose(line) {
    for (const other of lines) other.classList.toggle("live", other === line);
    for (const row of rows) row.classList.remove("live");
    const spans = line.dataset.spans.trim().split(" ").filter(Boolean).map((text) => text.split("-").map(Number));
    for (const [first, last] of spans) for (let n = first; n <= last; ++n) rows[n - 1].classList.add("live");
    if (spans.length > 0) frame.scrollTo({ top: rows[spans[0][0] - 1].offsetTop - frame.offsetTop - 60 });
  }

  for (const line of lines) line.querySelector(".show").addEventListener("click", () => choose(line));
  for (const link of document.querySelectorAll(".tags a"))
    link.addEventListener("click", () => choose(document.querySelector(link.getAttribute("href"))));
  const named = location.hash.startsWith("#line-") ? document.querySelector(location.hash) : null;
  if (named !== null) choose(named);
})();
