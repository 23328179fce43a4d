// A table to try the page with. The patients are drawn from a formula.

const ROWS = 400;
const SEED = 20_240_301;
const WARDS = ["surgery", "medicine", "cardiology", "geriatrics"];
const FIRST_DAY = Date.UTC(2024, 0, 1);
const DAY_MS = 86_400_000;

/** Returns a function that draws numbers between 0 and 1, the same in every browser. */
function drawing(seed) {
  let state = seed;
  return () => {
    // Multiplicative generator of Lehmer with the factor of Park and Miller: exact in doubles.
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** Returns the file, with an ID, a date, text and gaps, as tables have them. */
export function sample() {
  const draw = drawing(SEED);
  const normal = () => Array.from({ length: 12 }, draw).reduce((sum, x) => sum + x, -6);
  const lines = ["patient_id,admitted,ward,sex,age,weight_kg,systolic,crp,readmitted"];
  for (let row = 0; row < ROWS; row += 1) {
    const day = new Date(FIRST_DAY + Math.floor(366 * draw()) * DAY_MS).toISOString().slice(0, 10);
    const ward = WARDS[Math.floor(WARDS.length * draw())];
    const sex = draw() < 0.5 ? "f" : "m";
    const age = Math.round(Math.min(Math.max(62 + 14 * normal(), 19), 97));
    const weight = (sex === "f" ? 68 : 81) + 11 * normal();
    const systolic = Math.round(112 + 0.35 * age + 13 * normal());
    const crp = 4 + 3 * Math.abs(normal()) + (draw() < 0.1 ? 30 * draw() : 0);
    const risk = 0.06 * (age - 62) + 0.08 * (crp - 7) + (ward === "geriatrics" ? 0.6 : 0) - 0.4;
    const readmitted = draw() * (1 + Math.exp(-risk)) < 1 ? "yes" : "no";
    lines.push([
      `P-${String(10_000 + 7 * row)}`, day, ward, sex, age,
      draw() < 0.04 ? "" : weight.toFixed(1), systolic, draw() < 0.06 ? "" : crp.toFixed(1), readmitted,
    ].join(","));
  }
  return new File([`${lines.join("\n")}\n`], "sample.csv", { type: "text/csv" });
}

/** The column that a model of this table predicts. */
export const SAMPLE_TARGET = "readmitted";
