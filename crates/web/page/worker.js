// This thread holds the keys. It makes them, encrypts and decrypts, and opens no connections. It writes
// files for the server to the origin's private file system, and the page sends them from there.

import init, { Csv, Holder, Scorer, check } from "./sudare_web.js";
import { folder } from "./store.js";

let memory, csv, owner, holder, shown, scorer;

/** Opens a file of the job for writing, and empties it. */
async function newFile(name) {
  const file = await (await folder()).getFileHandle(name, { create: true });
  const access = await file.createSyncAccessHandle();
  access.truncate(0);
  return access;
}

/** Writes a file of the job. `make` gets a function that writes bytes. */
async function written(name, make) {
  const access = await newFile(name);
  try {
    return make((bytes) => {
      if (access.write(bytes) !== bytes.length) throw new Error("the browser has no space left");
    });
  } finally {
    access.flush();
    access.close();
  }
}

/** Same as `written`, for bytes in the module's memory. */
const writtenFrom = (name, make) => written(name, (write) =>
  make((start, length) => write(new Uint8Array(memory.buffer, start, length))));

/** Returns the text of a page, if there is one. */
function seen(page) {
  if (page === undefined) return undefined;
  const text = { body: page.body(), page: page.page() };
  page.free();
  return text;
}

/** Returns the result of `work`, and its run time in seconds. */
async function timed(work) {
  const begun = performance.now();
  const result = await work();
  return { ...result, seconds: (performance.now() - begun) / 1000 };
}

/** Keeps a model for scoring, and returns facts about it. */
function keepScorer(model) {
  scorer?.free();
  scorer = model;
  return JSON.parse(scorer.about());
}

const calls = {
  async start({ module }) {
    ({ memory } = await init({ module_or_path: module }));
  },

  async read({ file }) {
    const text = new Uint8Array(await file.arrayBuffer());
    csv?.free();
    csv = new Csv(file.name, text);
    return JSON.parse(csv.contents());
  },

  plan(choice) {
    const planned = csv.plan(JSON.stringify(choice));
    owner?.free();
    owner = planned;
    return JSON.parse(owner.summary());
  },

  /** Returns the options of the command that read the table in the same way. */
  words(choice) {
    return csv.words(JSON.stringify(choice));
  },

  /** Opens the file of a model that scores rows. */
  async open({ file }) {
    return keepScorer(Scorer.read(new Uint8Array(await file.arrayBuffer()), file.name));
  },

  /** Takes the decrypted model to score rows. */
  take() {
    return keepScorer(shown.scorer());
  },

  /** Plans scores of the rows of the table by the open model. */
  score() {
    const planned = csv.plan_scores(scorer);
    owner?.free();
    owner = planned;
    return JSON.parse(owner.summary());
  },

  /** Draws the secret key and seals it first, since sealing takes the most memory. */
  async draw({ passphrase }) {
    holder?.free();
    holder = owner.draw();
    return timed(async () => {
      const sealed = owner.seal(holder, passphrase);
      passphrase.fill(0);
      await written("secret.key", (write) => write(sealed));
      return { sealed };
    });
  },

  async make(_, progress) {
    return timed(async () => JSON.parse(
      await writtenFrom("evaluation.key", (write) => owner.make_keys(holder, write, progress))));
  },

  async encrypt(_, progress) {
    return timed(async () => JSON.parse(
      await writtenFrom("table.ct", (write) => owner.encrypt(holder, write, progress))));
  },

  /** Encrypts the model that scores the rows. */
  async encryptModel() {
    return JSON.parse(await writtenFrom("model.ct", (write) => owner.encrypt_model(holder, write)));
  },

  async keep({ record }) {
    const text = new TextEncoder().encode(JSON.stringify(record));
    await written("record.json", (write) => write(text));
  },

  holds() {
    return holder !== undefined;
  },

  /** Refuses a file that may not be sent to a collection of the service. */
  check({ collection, file }) {
    const reader = new FileReaderSync();
    const read = (start, length) =>
      new Uint8Array(reader.readAsArrayBuffer(file.slice(start, start + length)));
    check(read, file.size, collection);
  },

  async unseal({ sealed, passphrase }) {
    const opened = Holder.unseal(sealed, passphrase);
    passphrase.fill(0);
    holder?.free();
    holder = opened;
  },

  async decrypt({ result, digest, name = "" }) {
    return timed(async () => {
      const opened = holder.decrypt(result, digest);
      shown?.free();
      shown = opened;
      return { json: shown.json(), csv: shown.csv(), figures: seen(shown.figures(name)) };
    });
  },

  report() {
    return csv === undefined ? undefined : seen(shown.report(csv));
  },

  heap() {
    return memory.buffer.byteLength;
  },
};

addEventListener("message", async ({ data: { id, call, args } }) => {
  const progress = (done) => postMessage({ id, progress: done });
  try {
    postMessage({ id, result: await calls[call](args, progress) });
  } catch (error) {
    // After a trap the module cannot be used any more.
    const fatal = error instanceof WebAssembly.RuntimeError;
    const message = fatal ? "the program crashed: reload the page" : error.message;
    postMessage({ id, error: { kind: error.name, message } });
  }
});
