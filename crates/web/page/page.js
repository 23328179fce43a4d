// The owner's steps, from a table to a result. The Worker holds the keys. This thread shows the page,
// and sends files.

import { chosenColumns, countColumns, showColumns } from "./columns.js";
import { commands } from "./commands.js";
import { showSizes, showWaits } from "./costs.js";
import { sentence, weights } from "./models.js";
import { startOwner } from "./owner.js";
import { SAMPLE_TARGET, sample } from "./sample.js";
import { Service } from "./service.js";
import { at, byId, bytes, duration, element, hide, say, show } from "./show.js";
import { folder, forget, readRecord, stored } from "./store.js";

/** Maximum bytes of keys and table in the page. For larger ones it shows commands. */
const MOST_BYTES = 1 << 30;
/** The kind of jobs in stored records from before there were other kinds. */
const FIRST_KIND = "train";
/** Milliseconds to wait for another page to close. */
const MOMENT = 2000;

const server = document.querySelector("meta[name=server]").content;

/** Progress of the job. It is stored, so that the job continues after the page was closed. */
let record;
let owner, csvName, csvRows, summary, planned;
/** Name of the file of the model that scores rows, if one is open. */
let modelName;

// ---- Steps

/** Runs a step with the buttons disabled, and shows its error. */
async function step(work) {
  byId("problem").replaceChildren();
  const buttons = [...document.querySelectorAll("button:not(:disabled):not(#cancel, #theme)")];
  for (const button of buttons) button.disabled = true;
  try {
    await work();
  } catch (error) {
    say("");
    // Each of several faults of a table has a line of its own.
    const lines = error.message.split("\n");
    if (error.name !== "Error" && lines.length === 1) lines[0] = `${error.name}: ${lines[0]}`;
    byId("problem").append(...lines.map((line) => element("p", line)));
  } finally {
    for (const button of buttons) button.disabled = false;
    // Nothing is sent before the key file is saved.
    for (const id of ["start", "resume-go"]) byId(id).disabled = !record?.saved;
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

// ---- The table

const LATER = ["plan", "large", "keys", "send"];

on("file", "change", async () => {
  const [file] = byId("file").files;
  if (file !== undefined) await open(file);
});

on("sample", "click", async () => {
  byId("file").value = "";
  byId("job").value = "train";
  await open(sample());
  byId("target").value = SAMPLE_TARGET;
});

// A file that is dropped anywhere on the page is opened, or the browser would leave the page.
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("choose").classList.toggle("over", true);
});
for (const end of ["dragleave", "drop"]) {
  document.addEventListener(end, () => byId("choose").classList.toggle("over", false));
}
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const files = event.dataTransfer?.files ?? [];
  if (files.length === 0 || byId("choose").hidden) return;
  byId("file").files = files;
  byId("file").dispatchEvent(new Event("change"));
});

/** Reads a table, and shows its columns. */
async function open(file) {
  hide("what", "columns-text", "columns-view", ...LATER);
  at("table");
  say("Reading the table…");
  const { rows, columns } = await owner.read({ file });
  [csvName, csvRows] = [file.name, rows];
  showColumns(columns, fitColumns);
  byId("missing").value = columns.some((column) => column.missing > 0) ? "mean" : "refuse";
  fitColumns();
  // Browsers may restore the selection after a reload.
  fitForm();
  byId("columns-text").hidden = byId("what").hidden = false;
  hide("hero");
  at("job");
  say("Choose what to compute.");
}

/** Offers the columns in use as target and as groups. */
function fitColumns() {
  hide(...LATER);
  const used = chosenColumns();
  describeTable();
  for (const id of ["target", "by"]) {
    const before = byId(id).value;
    byId(id).replaceChildren(element("option", "Choose a column", { value: "" }),
      ...used.map(({ name }) => element("option", name, { value: name })));
    byId(id).value = used.some(({ name }) => name === before) ? before : "";
  }
}

/** Tells the size of the table. */
function describeTable() {
  const used = byId("job").value === "predict" ? "" : `, ${chosenColumns().length} in use`;
  byId("columns-text").textContent = `${csvName}: ${csvRows} rows, ${countColumns()} columns${used}.`;
}

/** Shows only the fields of the selected job. */
function fitForm() {
  for (const { value } of byId("job").options) {
    const fields = byId(`of-${value}`);
    if (fields !== null) fields.hidden = fields.disabled = value !== byId("job").value;
  }
  // The model says which columns of the rows it takes, and how.
  const scores = byId("job").value === "predict";
  byId("coding").hidden = byId("coding").disabled = byId("columns-view").hidden = scores;
  describeTable();
}

byId("job").addEventListener("change", fitForm);

on("model", "change", async () => {
  const [file] = byId("model").files;
  if (file === undefined) return;
  modelName = undefined;
  showModel(await owner.open({ file }), file.name, file.name);
});

/** Tells which model scores the rows: its file, and what a person calls it. */
function showModel({ target, classes, columns, rows }, file, called) {
  modelName = file;
  byId("model-text").textContent = `${called} predicts ${target} (${classes.join(", ")}) from ` +
    `${columns.join(", ")}. It was trained on ${rows} rows.`;
}
// Plans and problems belong to the fields as they were.
byId("choice").addEventListener("change", () => {
  hide(...LATER);
  byId("problem").replaceChildren();
});

/** Reads the fields of each kind of job. */
const taking = {
  train() {
    const iterations = byId("iterations").value;
    return { target: byId("target").value, iterations: iterations === "" ? null : Number(iterations) };
  },
  stats: () => ({}),
  groups: () => ({ by: byId("by").value }),
  histogram: () => ({ bins: Number(byId("bins").value) }),
  predict() {
    if (modelName === undefined) throw new Error("no model is open: choose the file of a model");
    return {};
  },
};

function choice() {
  const kind = byId("job").value;
  const job = { kind, ...taking[kind]() };
  const [missing, unseen] = [byId("missing").value, byId("unseen").value];
  return { missing, unseen, rare: Number(byId("rare").value), columns: chosenColumns(), job };
}

on("choice", "submit", async () => {
  hide(...LATER);
  say("Planning…");
  const chosen = choice();
  summary = await (chosen.job.kind === "predict" ? owner.score() : owner.plan(chosen));
  planned = chosen.job.kind;
  showPlan();
  const needed = summary.key_bytes + summary.table_bytes;
  const { quota = Infinity, usage = 0 } = await navigator.storage.estimate();
  if (needed > Math.min(MOST_BYTES, quota - usage)) {
    await showCommands(chosen, needed, quota - usage);
  } else {
    byId("keys").hidden = false;
    at("keys");
  }
  say("Planned.");
});

// ---- The plan

function showPlan() {
  const { job, rows, dropped, features, groups, training, scoring } = summary;
  const left = dropped > 0 ? ` (${dropped} rows with missing values are left out)` : "";
  const shape = `at most ${rows} rows${left}, ${features} columns of numbers`;
  const learns = [`the job: ${job}`];
  if (training !== null) {
    const { classes, iterations, sigmoid_range } = training;
    learns.push(`${shape}, ${classes} classes`, `${iterations} iterations, their step sizes, and ` +
      `an upper bound of inner products of rows and weights: ${sigmoid_range}`);
  } else if (scoring !== null) {
    learns.push(`${shape}, ${scoring.classes} classes`);
  } else {
    learns.push(groups === null ? shape : `${shape}, at most ${groups} groups`);
  }
  const unused = scoring?.unused ?? [];
  byId("unused").hidden = unused.length === 0;
  byId("unused").textContent = `The model does not use ${unused.join(", ")}.`;
  learns.push("your token, your address, and the times and sizes of your uploads");
  byId("learns").replaceChildren(...learns.map((text) => element("li", text)));
  showSizes(summary);
  showWaits(summary);
  show("plan");
}

byId("speed").addEventListener("change", () => showWaits(summary));

async function showCommands(chosen, needed, room) {
  const words = chosen.job.kind === "predict" ? [] : await owner.words(chosen);
  byId("large-text").textContent =
    `Keys and table need ${bytes(needed)}; this page can store at most ${bytes(Math.min(MOST_BYTES, room))}. ` +
    "Run these commands instead. They make the same files:";
  const { job } = chosen;
  const lines = commands({ server, file: csvName, job, summary, words, model: modelName });
  byId("commands").textContent = lines.join("\n");
  byId("large").hidden = false;
}

// ---- Keys

on("keys-form", "submit", async () => {
  if (byId("passphrase").value !== byId("again").value) {
    throw new Error("the passphrases differ: enter the same one twice");
  }
  await navigator.storage.persist?.();
  // The files of an earlier job belong to another key.
  if (record !== undefined) {
    await forget();
    record = undefined;
  }
  say("Sealing the secret key…");
  taken("again");
  const { sealed, ...sealing } = await owner.draw({ passphrase: passphrase("passphrase") });
  say("Encrypting the table…");
  const making = byId("making");
  Object.assign(making, { hidden: false, max: summary.ciphertexts + summary.keys, value: 0 });
  const table = await owner.encrypt({}, (done) => { making.value = done; });
  say("Making keys…");
  const keys = await owner.make({}, (done) => { making.value = summary.ciphertexts + done; });
  const model = planned === "predict" ? await owner.encryptModel() : undefined;
  const { job } = summary;
  record = { server, made: Date.now(), kind: planned, name: csvName, job, keys, table, model, saved: false };
  await owner.keep({ record });
  download(byId("save"), sealed);
  const heap = await owner.heap();
  say(`Keys made in ${duration(keys.seconds)}, sealed in ${duration(sealing.seconds)}, table ` +
    `encrypted in ${duration(table.seconds)}, with ${bytes(heap)} of memory.`);
  hide("keys", "making");
  at("send");
  show("send");
});

// ---- Saving the key, and sending

for (const id of ["save", "resume-key"]) {
  byId(id).addEventListener("click", () => step(async () => {
    record = { ...record, saved: true };
    await owner.keep({ record });
  }));
}

on("send-form", "submit", () => run(taken("token").trim()));

// ---- The job

/** Runs the rest of the job. After an error it can be tried again. */
async function run(token) {
  hide("hero", "choose", "what", "plan", "keys", "send", "resume");
  at("send");
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
  const { kind = FIRST_KIND, keys, table, model } = record;
  const request = { kind, keys: keys.digest, tables: [table.digest], history: kind === "train" };
  if (model) request.model = model.digest;
  const { id, predicted } = await service.submit(request);
  record = { ...record, id };
  await owner.keep({ record });
  at("compute");
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
    at("result");
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
  const { model } = record;
  if (model) parts.push(["models", await kept("model.ct", model), model.digest]);
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

// ---- The result

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
  const [all, cells] = { train: ["model", "weights"], predict: ["scores", "scores"] }[kind] ?? [kind, kind];
  byId("downloads").replaceChildren();
  addDownload(`${all}.json`, json, "application/json");
  addDownload(`${cells}.csv`, csv, "text/csv");
  hide("work");
  at("result");
  show("result");
  byId("scoring").hidden = kind !== "train";
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
    byId("report").replaceChildren(sentence(model), weights(model));
    return say("The model is decrypted.");
  }
  showPage(report);
  say("The model is decrypted and measured.");
}

on("table", "change", async () => {
  const [file] = byId("table").files;
  if (file === undefined) return;
  await owner.read({ file });
  await showReport();
});

on("score", "click", async () => {
  showModel(await owner.take(), "model.json", "The model that you just trained");
  byId("job").value = "predict";
  byId("file").value = byId("model").value = "";
  hide("result", "what", "columns-text", "columns-view", ...LATER);
  at("table");
  show("choose");
  say("Choose a table with the rows to score.");
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
  hide("hero");
  at(record.id ? "compute" : "send");
  show("resume");
  const sealed = await stored("secret.key");
  if (sealed === undefined) throw new Error("the browser has deleted the key of this job: start over");
  download(byId("resume-key"), await sealed.arrayBuffer());
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
  at("table");
  say("Choose a table.");
  byId("choose").hidden = false;
});
