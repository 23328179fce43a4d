// Helpers to show text, elements and steps.

export const byId = (id) => document.getElementById(id);

/** Creates an element with plain text, never markup. */
export function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function say(text) {
  byId("status").textContent = text;
}

export function hide(...ids) {
  for (const id of ids) byId(id).hidden = true;
}

/** Marks a step as the current one. */
export function at(step) {
  const steps = [...byId("steps").children];
  const current = steps.findIndex((item) => item.dataset.step === step);
  for (const [place, item] of steps.entries()) {
    item.classList.toggle("done", place < current);
    if (place === current) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  }
}

/** Shows a section and moves the focus to its heading, below the line of steps. */
export function show(id) {
  byId(id).hidden = false;
  byId(`${id}-head`).focus({ preventScroll: true });
  byId(id).scrollIntoView();
}

export function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; unit += 1) count /= 1024;
  return unit === 0 ? `${count} bytes` : `${count.toFixed(1)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 90 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} minutes`;
}

/** Creates the items of a description list. */
export const tiles = (values) => Object.entries(values).map(([name, value]) => {
  const tile = element("div");
  tile.append(element("dt", name), element("dd", value));
  return tile;
});
