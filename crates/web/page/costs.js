// Costs of a planned job, as the time that the user waits.

import { byId, bytes, duration, tiles } from "./show.js";

// Rates of one thread of a laptop, half of the rates in docs/performance.md.
const KEY_BYTES_A_SECOND = 40e6;
const TABLE_BYTES_A_SECOND = 20e6;
/** Sealing the key by the passphrase. */
const SEALING_SECONDS = 1.5;
const BITS_A_BYTE = 8;

/** Shows how long each part of a planned job takes at the selected upload speed. */
export function showWaits({ key_bytes, table_bytes, seconds }) {
  const megabits = Number(byId("speed").value);
  const sent = key_bytes + table_bytes;
  const waits = {
    "make the keys": SEALING_SECONDS + key_bytes / KEY_BYTES_A_SECOND,
    "encrypt the table": table_bytes / TABLE_BYTES_A_SECOND,
    [`upload ${bytes(sent)}`]: (sent * BITS_A_BYTE) / (megabits * 1e6),
    "compute, on one core": seconds,
  };
  const all = Object.values(waits).reduce((sum, wait) => sum + wait, 0);
  byId("wait-text").textContent = `You wait about ${duration(all)} for the result.`;
  const shown = Object.entries(waits).map(([name, wait]) => [name, duration(wait)]);
  byId("waits").replaceChildren(...tiles(Object.fromEntries(shown)));
}

/** Shows sizes and security of a planned job. */
export function showSizes({ log_n, security_bits, keys, key_bytes, table_bytes }) {
  byId("sizes").replaceChildren(...tiles({
    security: `${security_bits.toFixed(0)} bits`,
    "ring dimension": `2^${log_n}`,
    [`${keys} keys`]: bytes(key_bytes),
    table: `at most ${bytes(table_bytes)}`,
  }));
}
