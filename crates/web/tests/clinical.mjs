// A clinical table for tests: an identifier, a date, texts and gaps. The rows are drawn.

const WARDS = ["east", "north", "west"];
const SMOKING = ["never", "former", "current"];

/** Returns the text of a table with this number of rows, the same for the same seed. */
export function clinical(rows, seed) {
  let state = seed;
  // Multiplicative generator of Lehmer with the factor of Park and Miller: exact in doubles.
  const draw = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  for (let i = 0; i < 10; i += 1) draw();
  const of = (values) => values[Math.floor(values.length * draw())];
  const lines = ["patient_id,admitted,ward,sex,smoking,age,crp,stay,died"];
  for (let row = 0; row < rows; row += 1) {
    const day = String(1 + Math.floor(28 * draw())).padStart(2, "0");
    const ward = of(WARDS);
    const sex = of(["F", "M"]);
    const smoking = draw() < 0.05 ? "" : of(SMOKING);
    const age = 20 + Math.floor(70 * draw());
    const crp = (60 * draw() * draw()).toFixed(1);
    const stay = Math.floor(14 * draw());
    const risk = (age - 62) / 9 + (crp - 15) / 12 + 2 * (draw() - 0.5);
    lines.push([`P${10_000 + row}`, `2024-0${1 + (row % 9)}-${day}`, ward, sex, smoking, age,
      draw() < 0.08 ? "" : crp, stay, risk > 0 ? "yes" : "no"].join(","));
  }
  return `${lines.join("\n")}\n`;
}

/** Returns the rows of such a text as objects. */
export function readings(text) {
  const [head, ...lines] = text.trimEnd().split("\n").map((line) => line.split(","));
  return lines.map((cells) => Object.fromEntries(head.map((name, at) => [name, cells[at]])));
}
