// The reader's choice of colours: automatic, light or dark. Kept where the browser lets us keep it.
(() => {
  const picker = document.getElementById("theme");
  const apply = (choice) => {
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
  };
  let kept = null;
  try { kept = localStorage.getItem("flashgen-theme"); } catch { /* file:// may forbid it */ }
  if (kept !== null && [...picker.options].some((option) => option.value === kept)) picker.value = kept;
  apply(picker.value);
  picker.addEventListener("change", () => {
    apply(picker.value);
    try { localStorage.setItem("flashgen-theme", picker.value); } catch { /* then only for now */ }
  });
})();
