// The owner's steps, from a table to a result. The Worker holds the keys. This thread shows the page,
// and sends files.

import { startOwner } from "./owner.js";
import { Service } from "./service.js";
import { folder, forget, readRecord, stored } from "./store.js";

/** Maximum bytes of keys and table in the page. For larger ones it shows commands. */
const MOST_BYTES = 1 << 30;
/** The kind of jobs in stored records from before there were other kinds. */
const FIRST_KIND = "train";
/** Milliseconds to wait for another page to close. */
const MOMENT = 2000;

const server = document.querySelector("meta[name=server]").content;
const byId = (id) => document.getElementById(id);

/** Progress of the job. It is stored, so that the job continues after the page was closed. */
let record;
let owner, csvName, summary, planned;

// ---- Showing

function say(text) {
  byId("status").textContent = text;
}

/** Shows a step and moves the focus there. */
function show(id) {
  byId(id).hidden = false;
  byId(`${id}-head`).focus();
}

function hide(...ids) {
  for (const id of ids) byId(id).hidden = true;
}

/** Creates an element with plain text, never markup. */
function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; unit += 1) count /= 1024;
  return unit === 0 ? `${count} bytes` : `${count.toFixed(1)} ${units[unit]}`;
}

const duration = (seconds) =>
  seconds < 90 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(0)} minutes`;

/** Runs a step with the buttons disabled, and shows its error. */
async function step(work) {
  byId("problem").replaceChildren();
  const buttons = [...document.querySelectorAll("button:not(:disabled):not(#cancel)")];
  for (const button of buttons) button.disabled = true;
  try {
    await work();
  } catch (error) {
    say("");
    const kind = error.name === "Error" ? "" : `${error.name}: `;
    byId("problem").append(element("p", kind + error.message));
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

function on(id, event, work) {
  byId(id).addEventListener(event, (happening) => {
    if (event === "submit") happening.preventDefault();
    step(work);
  });
}

/** Returns a typed passphrase or token, and clears its field. */
function taken(id) {
  const text = byId(id).value;
  byId(id).value = "";
  return text;
}

const passphrase = (id) => new TextEncoder().encode(taken(id));

function download(link, content, type = "application/octet-stream") {
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([content], { type }));
}

// ---- 1. The table

on("file", "change", async () => {
  hide("plan", "large", "keys", "send");
  const [file] = byId("file").files;
  if (file === undefined) return;
  say("Reading the table…");
  const { rows, columns } = await owner.read({ file });
  csvName = file.name;
  byId("columns-text").textContent = `${file.name}: ${rows} rows`;
  byId("columns").replaceChildren(...columns.map((column) => {
    const row = element("tr");
    const values = `${column.values}${column.more ? " or more" : ""}`;
    row.append(
      element("td", column.name),
      element("td", column.text ? "categories" : "numbers"),
      element("td", values),
      element("td", String(column.missing)));
    return row;
  }));
  const option = ({ name }) => element("option", name, { value: name });
  const choices = (id, columns) =>
    byId(id).replaceChildren(element("option", "Choose a column", { value: "" }), ...columns.map(option));
  choices("target", columns);
  choices("by", columns.filter(({ text }) => !text));
  byId("missing").value = columns.some((column) => column.missing > 0) ? "mean" : "refuse";
  // Browsers may restore the selection after a reload.
  fitForm();
  byId("choice").hidden = false;
  say("Choose what to compute.");
});

/** Shows only the fields of the selected job. */
function fitForm() {
  for (const { value } of byId("job").options) {
    const fields = byId(`of-${value}`);
    if (fields !== null) fields.hidden = fields.disabled = value !== byId("job").value;
  }
}

byId("job").addEventListener("change", fitForm);

/** Reads the fields of each kind of job. */
const taking = {
  train() {
    const iterations = byId("iterations").value;
    return { target: byId("target").value, iterations: iterations === "" ? null : Number(iterations) };
  },
  stats: () => ({}),
  groups: () => ({ by: byId("by").value }),
  histogram: () => ({ bins: Number(byId("bins").value) }),
};

function choice() {
  const kind = byId("job").value;
  return { missing: byId("missing").value, job: { kind, ...taking[kind]() } };
}

on("choice", "submit", async () => {
  hide("plan", "large", "keys", "send");
  say("Planning…");
  const chosen = choice();
  summary = await owner.plan(chosen);
  planned = chosen.job.kind;
  showPlan();
  const needed = summary.key_bytes + summary.table_bytes;
  const { quota = Infinity, usage = 0 } = await navigator.storage.estimate();
  if (needed > Math.min(MOST_BYTES, quota - usage)) {
    showCommands(needed, quota - usage);
  } else {
    byId("keys").hidden = byId("keys-form").hidden = false;
  }
  say("Planned.");
});

// ---- 2. What the server learns

function showPlan() {
  const { job, rows, dropped, features, groups, training } = summary;
  const left = dropped > 0 ? ` (${dropped} rows with missing values are left out)` : "";
  const shape = `at most ${rows} rows${left}, ${features} columns of numbers`;
  const learns = [`the job: ${job}`];
  if (training !== null) {
    const { classes, iterations, sigmoid_range } = training;
    learns.push(`${shape}, ${classes} classes`, `${iterations} iterations, their step sizes, and ` +
      `an upper bound of inner products of rows and weights: ${sigmoid_range}`);
  } else {
    learns.push(groups === null ? shape : `${shape}, at most ${groups} groups`);
  }
  learns.push("your token, your address, and the times and sizes of your uploads");
  byId("learns").replaceChildren(...learns.map((text) => element("li", text)));
  const { log_n, security_bits, keys, key_bytes, table_bytes, seconds } = summary;
  const sizes = {
    security: `${security_bits.toFixed(0)} bits`,
    "ring dimension": `2^${log_n}`,
    [`${keys} keys`]: bytes(key_bytes),
    table: `at most ${bytes(table_bytes)}`,
    time: `about ${duration(seconds)} on one core`,
  };
  byId("sizes").replaceChildren(...Object.entries(sizes).map(([name, value]) => {
    const tile = element("div");
    tile.append(element("dt", name), element("dd", value));
    return tile;
  }));
  show("plan");
}

/** Quotes a word for a shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function showCommands(needed, room) {
  const { missing, job: { kind, target, iterations, by } } = choice();
  const trains = kind === "train";
  const table = `${trains ? `--target ${quoted(target)} ` : ""}--categorical all --missing ${missing}`;
  const file = quoted(csvName);
  const count = iterations ? ` --iterations ${iterations}` : "";
  const keys = trains ? `train:${file} ${table}${count}` : summary.named;
  const groups = by === undefined ? "" : ` --by ${quoted(by)}`;
  const result = trains ? "model" : kind;
  byId("large-text").textContent =
    `Keys and table need ${bytes(needed)}; this page can store at most ${bytes(Math.min(MOST_BYTES, room))}. ` +
    "Run these commands instead. They make the same files:";
  byId("commands").textContent = [
    `sudare keygen --params auto --for ${keys} --passphrase --out keys`,
    `sudare encrypt --secret keys/secret.key --data ${file} ${table}${groups} -o table.ct`,
    `sudare remote ${kind} --evaluation-key keys/evaluation.key -i table.ct ${trains ? "--history " : ""}` +
      `-o ${result}.ct --url ${quoted(server)} --token-file TOKEN`,
    `sudare decrypt --secret keys/secret.key -i ${result}.ct -o ${result}.json`,
    ...(trains ? [`sudare report --model model.json --data ${file} -o report.html`] : []),
  ].join("\n");
  byId("large").hidden = false;
}

// ---- 3. Keys

on("keys-form", "submit", async () => {
  if (byId("passphrase").value !== byId("again").value) {
    throw new Error("the passphrases differ: enter the same one twice");
  }
  await navigator.storage.persist?.();
  say("Sealing the secret key…");
  taken("again");
  const { sealed, ...sealing } = await owner.draw({ passphrase: passphrase("passphrase") });
  say("Encrypting the table…");
  const making = byId("making");
  Object.assign(making, { hidden: false, max: summary.ciphertexts + summary.keys, value: 0 });
  const table = await owner.encrypt({}, (done) => { making.value = done; });
  say("Making keys…");
  const keys = await owner.make({}, (done) => { making.value = summary.ciphertexts + done; });
  const { job } = summary;
  record = { server, made: Date.now(), kind: planned, name: csvName, job, keys, table, saved: false };
  await owner.keep({ record });
  download(byId("save"), sealed);
  const heap = await owner.heap();
  say(`Keys made in ${duration(keys.seconds)}, sealed in ${duration(sealing.seconds)}, table ` +
    `encrypted in ${duration(table.seconds)}, with ${bytes(heap)} of memory.`);
  byId("keys-form").hidden = true;
  hide("making");
  show("send");
});

// ---- 4. Save the key, and send

for (const id of ["save", "resume-key"]) {
  byId(id).addEventListener("click", () => step(async () => {
    record = { ...record, saved: true };
    await owner.keep({ record });
    allowSending();
  }));
}

function allowSending() {
  for (const id of ["start", "resume-go"]) byId(id).disabled = false;
}

on("send-form", "submit", () => run(taken("token").trim()));

// ---- 5. The job

/** Runs the rest of the job. After an error it can be tried again. */
async function run(token) {
  hide("choose", "plan", "keys", "send", "resume");
  show("work");
  try {
    await finish(new Service(record.server, token, (collection, file) => owner.check({ collection, file })));
  } catch (error) {
    hide("work", "cancel");
    await resume();
    throw error;
  }
}

async function finish(service) {
  await upload(service);
  say("Submitting the job…");
  const { kind = FIRST_KIND, keys, table } = record;
  const request = { kind, keys: keys.digest, tables: [table.digest], history: kind === "train" };
  const { id, predicted } = await service.submit(request);
  record = { ...record, id };
  await owner.keep({ record });
  const cancel = byId("cancel");
  cancel.onclick = () => step(() => service.cancel(id));
  cancel.hidden = false;
  say(`Computing; the server predicts ${duration(predicted.seconds)}.`);
  const job = await service.wait(id, ({ state, progress: { done, total } }) => {
    Object.assign(byId("computed"), { max: Math.max(total, 1), value: done });
    if (state === "running") say(`Computing: ${done} of ${total} steps.`);
  });
  cancel.hidden = true;
  if (job.state !== "done") {
    throw new Error(`the job ended in the state ${job.state}${job.error ? `: ${job.error.detail}` : ""}`);
  }
  say("Downloading the result…");
  record = { ...record, result: job.result };
  await owner.keep({ record });
  encrypted = await service.result(job.result);
  if (await owner.holds()) await decrypt();
  else {
    say("The encrypted result has arrived.");
    show("unseal");
  }
}

/** The encrypted result. */
let encrypted;

async function upload(service) {
  const parts = [
    ["keys", await kept("evaluation.key", record.keys), record.keys.digest],
    ["tables", await kept("table.ct", record.table), record.table.digest],
  ];
  await service.check(parts.map(([collection, file]) => ({ collection, file })));
  const all = parts.reduce((sum, [, file]) => sum + file.size, 0);
  byId("sent").max = all;
  let before = 0;
  for (const [collection, file, digest] of parts) {
    await service.upload(collection, file, digest, (count) => {
      byId("sent").value = before + count;
      say(`Sending: ${bytes(before + count)} of ${bytes(all)}.`);
    });
    before += file.size;
  }
  byId("sent").value = all;
}

/** Returns a file of the job, complete. */
async function kept(name, { bytes: size }) {
  const file = await stored(name);
  if (file?.size === size) return file;
  throw new Error(`the browser has deleted ${name} of this job: delete the job, and start over`);
}

// ---- 6. The result

on("unseal-form", "submit", async () => {
  say("Unlocking the key…");
  const sealed = new Uint8Array(await (await stored("secret.key")).arrayBuffer());
  await owner.unseal({ sealed, passphrase: passphrase("unseal-passphrase") });
  hide("unseal");
  await decrypt();
});

async function decrypt() {
  say("Decrypting…");
  const { kind = FIRST_KIND, name, result: digest } = record;
  const { json, csv, figures } = await owner.decrypt({ result: encrypted, digest, name });
  const [all, cells] = kind === "train" ? ["model", "weights"] : [kind, kind];
  byId("downloads").replaceChildren();
  addDownload(`${all}.json`, json, "application/json");
  addDownload(`${cells}.csv`, csv, "text/csv");
  show("result");
  if (figures === undefined) return showReport(JSON.parse(json));
  showPage(figures);
  say("The result is decrypted.");
}

/** Shows the report of a result, and offers it as a page for download. */
function showPage({ body, page }) {
  const parsed = new DOMParser().parseFromString(body, "text/html");
  byId("report").replaceChildren(...parsed.body.childNodes);
  addDownload("report.html", page, "text/html");
}

function addDownload(name, content, type) {
  const link = element("a", `Download ${name}`, { download: name });
  download(link, content, type);
  const item = element("li");
  item.append(link);
  byId("downloads").append(item);
}

/** Shows the model's quality, or its weights alone without a table. */
async function showReport(model) {
  const report = await owner.report();
  byId("retable").hidden = report !== undefined;
  if (report === undefined) {
    byId("report").replaceChildren(weights(model));
    return say("The model is decrypted.");
  }
  showPage(report);
  say("The model is decrypted and measured.");
}

function weights({ columns, weights: found, classes }) {
  const models = Array.isArray(found[0]) ? found : [found];
  const table = element("table");
  table.append(element("caption", "Standardised coefficients"));
  const head = table.createTHead().insertRow();
  const names = models.length > 1 ? classes : ["coefficient"];
  for (const name of ["column", ...names]) head.append(element("th", name, { scope: "col" }));
  const body = table.createTBody();
  for (const [at, column] of ["(intercept)", ...columns].entries()) {
    const row = body.insertRow();
    row.append(element("td", column), ...models.map((model) => element("td", model[at].toFixed(4))));
  }
  return table;
}

on("table", "change", async () => {
  const [file] = byId("table").files;
  if (file === undefined) return;
  await owner.read({ file });
  await showReport();
});

on("finish", "click", beginAnew);
on("resume-forget", "click", beginAnew);

async function beginAnew() {
  await forget();
  location.reload();
}

// ---- The beginning

on("resume-form", "submit", () => run(taken("resume-token").trim()));

async function resume() {
  const done = record.result ? "is done" : record.id ? "was submitted" : "is encrypted, but not yet sent";
  byId("resume-text").textContent =
    `${record.job}, made on ${new Date(record.made).toLocaleString()} for ${record.server}: it ${done}.`;
  show("resume");
  const sealed = await stored("secret.key");
  if (sealed === undefined) throw new Error("the browser has deleted the key of this job: start over");
  download(byId("resume-key"), await sealed.arrayBuffer());
  if (record.saved) allowSending();
  say("");
}

/** Returns whether no other tab has the job, and locks it until this tab is closed. */
function alone() {
  return new Promise((resolve) => {
    // After a reload, the page waits a moment for its own old lock.
    const signal = AbortSignal.timeout(MOMENT);
    const held = navigator.locks.request("sudare", { signal }, () => {
      resolve(true);
      return new Promise(() => {});
    });
    held.catch(() => resolve(false));
  });
}

step(async () => {
  if (!isSecureContext || navigator.storage?.getDirectory === undefined) {
    throw new Error("this page has no storage of its own: open it by https or at " +
      "http://127.0.0.1, and not in a private window");
  }
  if (!(await alone())) {
    throw new Error("the page is open in another tab: close one of them, and reload the other");
  }
  await folder();
  owner = await startOwner();
  record = await readRecord();
  if (record !== undefined) return resume();
  say("Choose a table.");
  byId("choose").hidden = false;
});
