// The columns of the table: which of them the job uses, and their types.

import { byId, element } from "./show.js";

const KINDS = { number: "numbers", categories: "categories", date: "days since 1970" };

/** Remarks about columns. Columns with one of the first three are left out at first. */
const REMARKS = {
  id: "Tells rows apart like an ID, so it is left out. If you use it, the result names its values.",
  crowded: "Has more than 1000 categories, so it is left out.",
  empty: "Has no values, so it is left out.",
  mixed: "Has text among numbers: choose categories, correct the table, or switch the column off.",
  constant: "Has the same value in all rows.",
  wide: "Each category becomes a column of the encrypted table.",
};
const LEFT_OUT = ["id", "crowded", "empty"];

/** The columns, each with its checkbox `use` and, if there is a choice, its list `kind`. */
let columns = [];

/** Shows the columns. Calls `changed` after each change by the user. */
export function showColumns(found, changed) {
  columns = found.map((column, place) => ({ ...column, ...controls(column, place) }));
  byId("columns").replaceChildren(...columns.map(({ item }) => item));
  for (const column of columns) {
    const update = () => {
      column.item.classList.toggle("off", !column.use.checked);
      changed();
    };
    column.use.addEventListener("change", update);
    column.kind?.addEventListener("change", update);
  }
}

function controls({ name, kinds, remark, missing, values, more, examples }, place) {
  const item = element("li");
  const use = element("input", "", { type: "checkbox", id: `use-${place}` });
  use.checked = !LEFT_OUT.includes(remark);
  item.classList.toggle("off", !use.checked);
  const label = element("label", "", { for: use.id, class: "use" });
  label.append(use, element("span", name));
  item.append(label);
  let kind;
  if (kinds.length > 1) {
    kind = element("select", "", { "aria-label": `Type of ${name}` });
    kind.append(...kinds.map((value) => element("option", KINDS[value], { value })));
    item.append(kind);
  } else {
    item.append(element("span", KINDS[kinds[0]], { class: "only" }));
  }
  const gaps = missing > 0 ? `, ${missing} missing` : "";
  const count = `${values}${more ? " or more" : ""} ${values === 1 ? "value" : "values"}${gaps}`;
  const first = `: ${examples.join(", ")}${values > examples.length ? ", …" : ""}`;
  item.append(element("p", `${count}${values > 0 ? first : ""}`));
  if (remark !== null) {
    const text = element("p", REMARKS[remark], { id: `remark-${place}`, class: "remark" });
    use.setAttribute("aria-describedby", text.id);
    item.append(text);
  }
  return { item, use, kind };
}

/** Returns names and types of the columns that the job uses. */
export function chosenColumns() {
  const chosen = columns.filter(({ use }) => use.checked);
  return chosen.map(({ name, kind, kinds }) => ({ name, kind: kind?.value ?? kinds[0] }));
}

/** Returns the number of columns of the table. */
export const countColumns = () => columns.length;
