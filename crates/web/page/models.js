// A decrypted model without a table: its first sentence, and its weights.

import { element } from "./show.js";

/** Returns the weights of each class, or of the second of two classes. */
const models = ({ weights }) => (Array.isArray(weights[0]) ? weights : [weights]);

/** Returns the first sentence about a model without a table. */
export function sentence(model) {
  const several = models(model).length > 1;
  const all = models(model).flatMap(([, ...weights], of) => weights.map((weight, at) =>
    ({ weight, column: model.columns[at], name: model.classes[several ? of : 1] })));
  const { weight, column, name } = all.reduce((most, one) =>
    (Math.abs(one.weight) > Math.abs(most.weight) ? one : most));
  const likely = weight < 0 ? "less" : "more";
  return element("p", `The column with the largest coefficient is ${column}: larger values make the class ` +
    `${name} of ${model.target} ${likely} likely.`, { class: "lead" });
}

/** Returns a table of the weights. */
export function weights(model) {
  const table = element("table");
  table.append(element("caption", "Standardised coefficients"));
  const head = table.createTHead().insertRow();
  const names = models(model).length > 1 ? model.classes : ["coefficient"];
  for (const name of ["column", ...names]) head.append(element("th", name, { scope: "col" }));
  const body = table.createTBody();
  for (const [at, column] of ["(intercept)", ...model.columns].entries()) {
    const row = body.insertRow();
    row.append(element("td", column), ...models(model).map((of) => element("td", of[at].toFixed(4))));
  }
  const wide = element("div", "", { class: "wide", tabindex: "0", role: "region", "aria-label": "Coefficients" });
  wide.append(table);
  return wide;
}
