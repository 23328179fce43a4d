// Light or dark colours: the choice of the system, until the reader switches.

const KEPT = "sudare-colours";
const root = document.documentElement;
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");

/** Returns the choice of the reader, or `null`. Browsers may refuse access to what they store. */
function chosen() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function apply(colours = chosen() ?? (system.matches ? "dark" : "light")) {
  root.dataset.theme = colours;
  button.setAttribute("aria-pressed", String(colours === "dark"));
}

button.addEventListener("click", () => {
  const colours = root.dataset.theme === "dark" ? "light" : "dark";
  apply(colours);
  try {
    localStorage.setItem(KEPT, colours);
  } catch {
    // The choice then lasts as long as the page.
  }
});
system.addEventListener("change", () => apply());
apply();
