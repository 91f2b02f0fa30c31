// Shows the map of the knobs that the reader chose.
for (const select of document.querySelectorAll("select.knobs")) {
  const maps = select.closest(".maps").querySelectorAll(".map");
  const show = () => { for (const map of maps) map.hidden = map.dataset.map !== select.value; };
  select.addEventListener("change", show);
  show(); // browsers keep a choice over a reload
}
