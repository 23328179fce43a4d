// Journeys of an owner through the page, in Chromium, with a service: `make test-web`.
//
// The environment names the program (SUDARE), the page (PAGE), the packages of npm (MODULES) and the
// browser (CHROMIUM).

import assert from "node:assert/strict";
import crypto from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { commands } from "../page/commands.js";
import { clinical, readings } from "./clinical.mjs";
import { Proxy, found, hosting, json, serving, sudare } from "./service.mjs";

const { SUDARE, PAGE, MODULES, CHROMIUM = "/usr/bin/chromium" } = process.env;
const require = createRequire(`${path.resolve(MODULES)}/`);
const { chromium } = require("playwright-core");
const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const LBW = path.resolve(import.meta.dirname, "../../table/data/lbw.csv");
const PASSPHRASE = "six random words are a passphrase";
const TENANT = "clinic";
const MINUTES = 60_000;
/** Where pictures of the page are kept for a person to look at, and their widths in pixels. */
const PICTURES = path.join(path.resolve(MODULES), "pictures");
const WIDTHS = [360, 768, 1440];

let folder, service, token, proxy, page;
const browsers = [];

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "sudare-web-"));
  const store = path.join(folder, "store");
  token = sudare(SUDARE, folder, ["serve", "token", "add", "--folder", store, "--tenant", TENANT]).trim();
  proxy = await Proxy.listening();
  page = await serving(SUDARE, folder,
    ["web", "--server", proxy.address, "--listen", "127.0.0.1:0", "--page", path.resolve(PAGE)]);
  service = await serving(SUDARE, folder,
    ["serve", "--folder", store, "--listen", "127.0.0.1:0", "--allow-origin", page.address]);
  proxy.target = service.address;
});

after(async () => {
  // Browsers of failed journeys are still open.
  await Promise.all(browsers.map((context) => context.close()));
  proxy?.close();
  await page?.end();
  await service?.end();
  fs.rmSync(folder, { recursive: true, force: true });
});

/**
 * Opens the page in a new browser with a profile. Private browsers would pass each part of a file to
 * another process.
 */
async function visit(address = page.address) {
  const options = { acceptDownloads: true, executablePath: CHROMIUM, args: ["--no-sandbox"] };
  const profile = fs.mkdtempSync(path.join(folder, "profile-"));
  const context = await chromium.launchPersistentContext(profile, options);
  browsers.push(context);
  const [tab] = context.pages();
  const visited = { context, tab, problems: [], urls: [] };
  tab.on("pageerror", (error) => visited.problems.push(String(error)));
  tab.on("console", (message) => {
    // The browser also reports requests that the proxy breaks.
    const expected = message.text().includes("net::ERR_") || message.location().url.includes("favicon");
    if (message.type() === "error" && !expected) visited.problems.push(message.text());
  });
  context.on("request", (request) => visited.urls.push(request.url()));
  await tab.goto(address);
  return visited;
}

/** Moves the focus to an element by the keyboard alone. */
async function tabTo(tab, id) {
  for (let presses = 0; presses < 100; presses += 1) {
    if (await tab.evaluate(() => document.activeElement?.id) === id) return;
    await tab.keyboard.press("Tab");
  }
  assert.fail(`the keyboard does not lead to ${id}`);
}

async function press(tab, id) {
  await tabTo(tab, id);
  await tab.keyboard.press("Enter");
}

async function type(tab, id, text) {
  await tabTo(tab, id);
  await tab.keyboard.type(text);
}

async function chooseFile(tab, id, file) {
  const chooser = tab.waitForEvent("filechooser");
  await press(tab, id);
  await (await chooser).setFiles(file);
}

async function downloaded(tab, start, name) {
  const coming = tab.waitForEvent("download");
  await start();
  const file = path.join(folder, `${crypto.randomUUID()}-${name}`);
  await (await coming).saveAs(file);
  return file;
}

const seen = (tab, id) => tab.locator(`#${id}`).waitFor({ state: "visible", timeout: 2 * MINUTES });
const said = (tab, text) =>
  tab.locator("#status", { hasText: text }).waitFor({ timeout: 2 * MINUTES });
const refusal = async (tab) => {
  await tab.locator("#problem p").first().waitFor({ timeout: MINUTES });
  return tab.locator("#problem").innerText();
};

/** Refuses pages with problems for users of assistive technology. */
async function expectAccessible(tab, where) {
  await tab.evaluate(AXE);
  const { violations } = await tab.evaluate(() => globalThis.axe.run());
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html).join(" ")}`);
  assert.deepEqual(found, [], where);
}

/** Refuses the page at any width and in any colours if it is wider than its window or not accessible, and
    keeps pictures of it. */
async function look(tab, name) {
  const before = tab.viewportSize();
  fs.mkdirSync(PICTURES, { recursive: true });
  for (const width of WIDTHS) {
    for (const colorScheme of ["light", "dark"]) {
      await tab.emulateMedia({ colorScheme });
      await tab.setViewportSize({ width, height: 900 });
      const beyond = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `${name} is ${beyond} pixels too wide at ${width}`);
      await expectAccessible(tab, `${name} at ${width} in ${colorScheme}`);
      const picture = path.join(PICTURES, `${name}-${width}-${colorScheme}.png`);
      await tab.screenshot({ path: picture, fullPage: true });
    }
  }
  await tab.emulateMedia({ colorScheme: null });
  await tab.setViewportSize(before);
}

/** Returns the bytes of the memory that holds the keys. */
async function heap(tab) {
  return tab.workers()[0].evaluate(() => new Promise((resolve) => {
    const { postMessage } = self;
    self.postMessage = ({ result }) => {
      self.postMessage = postMessage;
      resolve(result);
    };
    self.dispatchEvent(new MessageEvent("message", { data: { id: 0, call: "heap", args: {} } }));
  }));
}

/** Selects the option with this prefix by the keyboard. */
async function pick(tab, id, text, value = text) {
  await tabTo(tab, id);
  await tab.keyboard.type(text);
  assert.equal(await tab.locator(`#${id}`).inputValue(), value);
}

/** Select each kind of job. */
const JOBS = {
  train: (tab) => pick(tab, "target", "y"),
  stats: (tab) => pick(tab, "job", "Statistics", "stats"),
  async groups(tab) {
    await pick(tab, "job", "Group", "groups");
    await pick(tab, "by", "smoke");
  },
  async histogram(tab) {
    await pick(tab, "job", "Histograms", "histogram");
    await tabTo(tab, "bins");
    await tab.keyboard.press("Control+A");
    await tab.keyboard.type("4");
  },
};

/** Goes from a table to saved keys, and returns the file of the secret key. */
async function prepare(tab, job = "train") {
  await said(tab, "Choose a table.");
  await chooseFile(tab, "file", LBW);
  await said(tab, "Choose what to compute.");
  await JOBS[job](tab);
  await press(tab, "go");
  await said(tab, "Planned.");
  await type(tab, "passphrase", PASSPHRASE);
  await type(tab, "again", PASSPHRASE);
  await tab.keyboard.press("Enter");
  await seen(tab, "send");
  return downloaded(tab, () => press(tab, "save"), "secret.key");
}

async function send(tab) {
  await type(tab, "token", token);
  await tab.keyboard.press("Enter");
}

async function given(tab, name = "model.json") {
  const link = tab.locator("#downloads a", { hasText: name });
  return fs.readFileSync(await downloaded(tab, () => link.press("Enter"), name), "utf8");
}

const ask = (url) => json(service.address + url, { authorization: `Bearer ${token}` });

test("a table becomes a model that is that of the command", async (t) => {
  const asked = proxy.requests.length;
  const { context, tab, problems, urls } = await visit();
  await said(tab, "Choose a table.");
  await expectAccessible(tab, "at the beginning");
  const begun = performance.now();
  const key = await prepare(tab);
  const made = await tab.locator("#status").innerText();
  assert.equal(proxy.requests.length, asked, "something was sent before the key was saved");
  await send(tab);
  await said(tab, "decrypted and measured");
  const seconds = (performance.now() - begun) / 1000;
  assert.equal(await tab.locator("#report svg[role=img]").count(), 5);
  await expectAccessible(tab, "at the end");
  const atMost = await heap(tab);
  const module = fs.readFileSync(path.join(PAGE, "sudare_web_bg.wasm"));
  t.diagnostic(made);
  t.diagnostic(`from the table to the plots: ${seconds.toFixed(1)} s`);
  t.diagnostic(`heap: ${(atMost / 2 ** 20).toFixed(0)} MiB`);
  t.diagnostic(`module: ${module.length} bytes, ${gzipSync(module, { level: 9 }).length} compressed`);
  const trained = await given(tab);
  const report = await given(tab, "report.html");
  assert.ok(report.startsWith("<!DOCTYPE html>") && report.includes("ROC curve"));

  // The command must give the same files, from the server's files and the saved key.
  const objects = path.join(folder, "store");
  const of = async (kind) => found(objects, (await ask(`/v1/${kind}`))[0].digest);
  const at = fs.mkdtempSync(path.join(folder, "command-"));
  const run = (line, passphrase) => sudare(SUDARE, at, line.split(" "), passphrase);
  run(`train --evaluation-key ${await of("keys")} -i ${await of("tables")} --history -o model.ct`);
  run(`decrypt --secret ${key} -i model.ct -o model.json`, PASSPHRASE);
  assert.equal(trained, fs.readFileSync(path.join(at, "model.json"), "utf8"));
  run(`report --model model.json --data ${LBW} -o report.html`);
  assert.equal(report, fs.readFileSync(path.join(at, "report.html"), "utf8"));

  // No request goes anywhere else, and none contains a secret.
  const origins = new Set(urls.map((url) => new URL(url).origin));
  origins.delete("null");
  assert.deepEqual([...origins].sort(), [page.address, proxy.address].sort());
  run(`key unseal ${key} -o clear.key`, PASSPHRASE);
  const bodies = proxy.bodies();
  const clear = fs.readFileSync(path.join(at, "clear.key"));
  expectAbsent(bodies, secrets(clear, fs.readFileSync(key), JSON.parse(trained)));
  // Control: the same search finds data that was sent.
  const table = fs.readFileSync(await of("tables"));
  assert.throws(() => expectAbsent(bodies, [["part of the table", table.subarray(5000, 5016)]]));

  assert.deepEqual(problems, []);
  await context.close();
});

test("a table with an ID, dates, text and gaps becomes a model in one click and a plan", async () => {
  const { context, tab, problems } = await visit();
  await said(tab, "Choose a table.");
  await look(tab, "1-first");
  await press(tab, "sample");
  await said(tab, "Choose what to compute.");
  assert.equal(await tab.locator("#steps [aria-current=step]").innerText(), "Job");
  const use = (name) => tab.getByRole("checkbox", { name, exact: true });
  assert.equal(await use("patient_id").isChecked(), false);
  assert.match(await tab.locator("#columns li.off").innerText(), /patient_id[^]*Tells rows apart/);
  assert.equal(await tab.getByLabel("Type of admitted").inputValue(), "date");
  assert.match(await tab.locator("#columns-text").innerText(), /400 rows, 9 columns, 8 in use/);
  assert.equal(await tab.locator("#target").inputValue(), "readmitted");
  // A column that is left out is not offered.
  await use("systolic").press("Space");
  assert.equal(await tab.locator("#target option[value=systolic]").count(), 0);
  await look(tab, "2-columns");
  await tab.locator("#go").press("Enter");
  await said(tab, "Planned.");
  assert.match(await tab.locator("#learns").innerText(), /400 rows, 10 columns of numbers, 2 classes/);
  const waits = async () => (await tab.locator("#wait-text").innerText()).match(/about ([\d.]+) s/)?.[1];
  const slow = Number(await waits());
  await tab.locator("#speed").selectOption("1000");
  assert.ok(Number(await waits()) < slow);
  await look(tab, "3-plan");
  await type(tab, "passphrase", PASSPHRASE);
  await type(tab, "again", PASSPHRASE);
  await tab.keyboard.press("Enter");
  await seen(tab, "send");
  await look(tab, "4-send");
  await downloaded(tab, () => press(tab, "save"), "secret.key");
  await send(tab);
  await said(tab, "decrypted and measured");
  const lead = await tab.locator("#report .lead").first().innerText();
  assert.match(lead, /^The model names the right class of readmitted for [\d.]+\s% of the rows/);
  await look(tab, "5-result");
  const text = await given(tab);
  assert.ok(!text.includes("P-10"));
  const { columns, encoding } = JSON.parse(text);
  assert.ok(columns.length === 10 && !columns.includes("systolic"));
  const code = (input) => encoding.inputs.find(({ name }) => name === input).code;
  assert.deepEqual(code("systolic"), { left_out: { reason: "unselected" } });
  // The mean day of 2024, in days since 1970, is between its quarters.
  const { mean } = code("admitted").date;
  assert.ok(mean > 19_800 && mean < 20_000, `${mean}`);

  // The same table measures the model after a reload, as the page finds its columns and dates again.
  const { accuracy } = await measured(tab);
  await tab.reload();
  await type(tab, "resume-token", token);
  await tab.keyboard.press("Enter");
  await seen(tab, "unseal");
  await type(tab, "unseal-passphrase", PASSPHRASE);
  await tab.keyboard.press("Enter");
  await said(tab, "The model is decrypted.");
  assert.match(await tab.locator("#report .lead").innerText(), /largest coefficient/);
  const { sample } = await import("../page/sample.js");
  const buffer = Buffer.from(await sample().arrayBuffer());
  await tab.locator("#table").setInputFiles({ name: "sample.csv", mimeType: "text/csv", buffer });
  await said(tab, "decrypted and measured");
  assert.deepEqual(await measured(tab), { accuracy });
  assert.deepEqual(problems, []);
  await context.close();
});

/** Returns the accuracy that the page shows. */
async function measured(tab) {
  const tile = tab.locator("#report dl div", { has: tab.locator("dt", { hasText: /^accuracy$/ }) });
  return { accuracy: await tile.locator("dd").first().innerText() };
}

test("files are dropped anywhere, and colours are switched", async () => {
  const { context, tab, problems } = await visit();
  await said(tab, "Choose a table.");
  const colours = () => tab.evaluate(() => document.documentElement.dataset.theme);
  assert.equal(await colours(), "light");
  await press(tab, "theme");
  assert.equal(await colours(), "dark");
  await tab.reload();
  await said(tab, "Choose a table.");
  assert.equal(await colours(), "dark");
  assert.equal(await tab.locator("#theme").getAttribute("aria-pressed"), "true");
  const data = await tab.evaluateHandle((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "dropped.csv", { type: "text/csv" }));
    return data;
  }, fs.readFileSync(LBW, "utf8"));
  await tab.locator("header").dispatchEvent("drop", { dataTransfer: data });
  await said(tab, "Choose what to compute.");
  assert.match(await tab.locator("#columns-text").innerText(), /dropped\.csv: 189 rows, 10 columns, 10 in use/);
  assert.deepEqual(problems, []);
  await context.close();
});

for (const [kind, learns, charts] of [
  ["stats", /189 rows, 10 columns of numbers$/m, 0],
  ["groups", /189 rows, 9 columns of numbers, at most 2 groups/, 0],
  ["histogram", /189 rows, 10 columns of numbers$/m, 10],
]) {
  test(`figures of columns are those of the command: ${kind}`, async () => {
    const { context, tab, problems } = await visit();
    const key = await prepare(tab, kind);
    assert.match(await tab.locator("#learns").innerText(), learns);
    await send(tab);
    await said(tab, "The result is decrypted.");
    await expectAccessible(tab, "at the end");
    assert.equal(await tab.locator("#report svg[role=img]").count(), charts);
    const [json, csv] = [await given(tab, `${kind}.json`), await given(tab, `${kind}.csv`)];
    assert.match(await given(tab, "report.html"), /^<!DOCTYPE html>[^]*<bdi>lbw\.csv<\/bdi>/);

    const { request } = (await ask("/v1/jobs")).find((job) => job.request.kind === kind);
    const at = fs.mkdtempSync(path.join(folder, "command-"));
    const run = (line, passphrase) => sudare(SUDARE, at, line.split(" "), passphrase);
    const of = (digest) => found(path.join(folder, "store"), digest);
    run(`stats --evaluation-key ${of(request.keys)} -i ${of(request.tables[0])} -o result.ct`);
    for (const [file, shown] of [["result.json", json], ["result.csv", csv]]) {
      run(`decrypt --secret ${key} -i result.ct -o ${file}`, PASSPHRASE);
      assert.equal(shown, fs.readFileSync(path.join(at, file), "utf8"));
    }
    assert.deepEqual(problems, []);
    await context.close();
  });
}

/** Counts the clicks and choices of a person, who also types. */
class Clicks {
  count = 0;

  constructor(tab) {
    this.tab = tab;
  }

  async click(selector) {
    this.count += 1;
    await this.tab.locator(selector).click();
  }

  async choose(id, value) {
    this.count += 1;
    await this.tab.locator(`#${id}`).selectOption(value);
  }

  async open(id, file) {
    const chooser = this.tab.waitForEvent("filechooser");
    await this.click(`#${id}`);
    await (await chooser).setFiles(file);
  }

  async save(id) {
    return downloaded(this.tab, () => this.click(`#${id}`), "file");
  }

  /** Goes from a chosen job to its result. */
  async finish(tells) {
    await this.click("#go");
    await said(this.tab, "Planned.");
    for (const id of ["passphrase", "again"]) await this.tab.locator(`#${id}`).fill(PASSPHRASE);
    await this.click("#keys-form button");
    await seen(this.tab, "send");
    assert.ok(await this.tab.locator("#start").isDisabled(), "sending before the key is saved");
    await this.save("save");
    await this.tab.locator("#token").fill(token);
    await this.click("#start");
    await said(this.tab, tells);
  }
}

/** Does a job by the commands that the page would show, without a service. */
function commanded(job, file) {
  const at = fs.mkdtempSync(path.join(folder, "command-"));
  const words = ["--missing", "mean"];
  const run = (line) => sudare(SUDARE, at, line.replaceAll("'", "").split(" ").slice(1));
  const [make, encrypt, compute, decrypt] = commands({ server: "", file, job, words, summary: {} });
  run(make.replace(" --passphrase", ""));
  run(encrypt);
  run(compute.replace(/ --url.*/, "").replace(/remote (\w+)/, job.kind === "train" ? "train" : "stats"));
  run(decrypt);
  const result = job.kind === "train" ? "model" : job.kind;
  return JSON.parse(fs.readFileSync(path.join(at, `${result}.json`), "utf8"));
}

/** Refuses results that differ by more than the errors of encryption. */
function expectNear(found, expected, error = 1e-5, where = "result") {
  if (typeof expected === "number" && typeof found === "number") {
    const near = Math.abs(found - expected) <= error * (1 + Math.abs(expected));
    assert.ok(near, `${where}: ${found}, not ${expected}`);
  } else if (typeof expected === "object" && expected !== null && typeof found === "object" && found !== null) {
    assert.deepEqual(Object.keys(found), Object.keys(expected), where);
    for (const key of Object.keys(expected)) expectNear(found[key], expected[key], error, `${where}.${key}`);
  } else assert.deepEqual(found, expected, where);
}

const mean = (numbers) => numbers.reduce((sum, x) => sum + x, 0) / numbers.length;

test("a clinical table in at most eight clicks for each job, with the command's numbers", async (t) => {
  const file = path.join(folder, "visits.csv");
  fs.writeFileSync(file, clinical(1200, 7));
  const later = path.join(folder, "later.csv");
  // Without the target, with a column that the model does not have, and in another order.
  const rows = readings(clinical(60, 8)).map(({ died, ...row }) => ({ note: "x", ...row }));
  fs.writeFileSync(later, [Object.keys(rows[0]), ...rows.map(Object.values)].map((r) => `${r.join(",")}\n`).join(""));
  const visits = readings(fs.readFileSync(file, "utf8"));
  const { context, tab, problems } = await visit();
  const started = async () => {
    await said(tab, "Choose a table.");
    return new Clicks(tab);
  };
  const ended = async (clicks, name) => {
    assert.ok(clicks.count <= 8, `${name} takes ${clicks.count} clicks`);
    t.diagnostic(`${name}: ${clicks.count} clicks`);
    await tab.locator("#finish").click();
  };

  let clicks = await started();
  await clicks.open("file", file);
  await said(tab, "Choose what to compute.");
  assert.match(await tab.locator("#columns li.off").innerText(), /patient_id[^]*Tells rows apart/);
  await clicks.choose("job", "stats");
  await clicks.finish("The result is decrypted.");
  assert.match(await tab.locator("#report .lead").innerText(), /^Among \d+ columns, /);
  const statistics = JSON.parse(await given(tab, "stats.json"));
  expectNear(statistics, commanded({ kind: "stats" }, file));
  const at = (column) => statistics.mean[statistics.columns.indexOf(column)];
  expectNear(at("crp"), mean(visits.filter(({ crp }) => crp !== "").map(({ crp }) => Number(crp))));
  expectNear(at("ward=north"), mean(visits.map(({ ward }) => Number(ward === "north"))));
  expectNear(at("admitted"), mean(visits.map(({ admitted }) => Date.parse(admitted) / 86_400_000)));
  await ended(clicks, "statistics");

  clicks = await started();
  await clicks.open("file", file);
  await said(tab, "Choose what to compute.");
  await clicks.choose("job", "groups");
  await clicks.choose("by", "ward");
  await clicks.finish("The result is decrypted.");
  await look(tab, "6-groups");
  const groups = JSON.parse(await given(tab, "groups.json"));
  expectNear(groups, commanded({ kind: "groups", by: "ward" }, file));
  for (const [group, ward] of groups.labels.entries()) {
    const of = visits.filter((row) => row.ward === ward);
    assert.equal(groups.count[group], of.length);
    expectNear(groups.mean[group][groups.columns.indexOf("age")], mean(of.map(({ age }) => Number(age))));
  }
  await ended(clicks, "groups by text");

  clicks = await started();
  await clicks.open("file", file);
  await said(tab, "Choose what to compute.");
  await clicks.choose("target", "died");
  await clicks.finish("decrypted and measured");
  const model = JSON.parse(await given(tab));
  const command = commanded({ kind: "train", target: "died" }, file);
  // The coding to the last bit, and weights within the errors of encryption.
  assert.deepEqual(model.encoding, command.encoding);
  assert.deepEqual(model.encoding.inputs[0], { name: "patient_id", code: { left_out: { reason: "identifier" } } });
  expectNear(model.weights, command.weights, 1e-3, "weights");
  const saved = path.join(folder, "model.json");
  fs.writeFileSync(saved, JSON.stringify(model));
  assert.ok(clicks.count <= 8);
  t.diagnostic(`training: ${clicks.count} clicks`);

  // New rows by the model that was just trained.
  clicks = new Clicks(tab);
  await clicks.click("#score");
  await said(tab, "Choose a table with the rows to score.");
  await clicks.open("file", later);
  await said(tab, "Choose what to compute.");
  assert.match(await tab.locator("#model-text").innerText(), /^The model that you just trained predicts died \(no, yes\).*1200 rows/);
  await look(tab, "7-scoring");
  await clicks.finish("The result is decrypted.");
  assert.equal(await tab.locator("#unused").innerText(), "The model does not use note.");
  // Without encryption, by the command.
  sudare(SUDARE, folder, ["predict", "--model", saved, "--data", later, "--drop", "note", "-o", "clear.csv"]);
  const clear = readings(fs.readFileSync(path.join(folder, "clear.csv"), "utf8"));
  const expectScores = async () => {
    const scores = JSON.parse(await given(tab, "scores.json"));
    assert.deepEqual(scores.predicted, clear.map(({ predicted }) => predicted));
    expectNear(scores.scores, clear.map(({ score }) => Number(score)), 1e-4);
    expectNear(scores.probabilities, clear.map(({ probability }) => Number(probability)), 1e-4);
  };
  await expectScores();
  const sentence = await tab.locator("#report .lead").innerText();
  assert.match(sentence, new RegExp(`^The model predicts \\w+ for \\d+ of 60 rows, \\w+ for \\d+\\.$`));
  await look(tab, "8-scores");
  await ended(clicks, "scores by the trained model");

  // And by the model from its file, in a new visit.
  clicks = await started();
  await clicks.open("file", later);
  await said(tab, "Choose what to compute.");
  await clicks.choose("job", "predict");
  await tab.locator("#go").click();
  assert.match(await refusal(tab), /no model is open/);
  await clicks.open("model", saved);
  await tab.locator("#model-text", { hasText: "model.json predicts died" }).waitFor();
  await clicks.finish("The result is decrypted.");
  await expectScores();
  assert.match(await given(tab, "scores.csv"), /^score,probability,predicted\n/);
  await ended(clicks, "scores by a model from a file");
  assert.deepEqual(problems, []);
  await context.close();
});

test("several faults of columns are told at once, with the controls that remedy them", async () => {
  const { context, tab } = await visit();
  await said(tab, "Choose a table.");
  const lines = Array.from({ length: 40 }, (_, i) =>
    [`P${i}`, i === 7 ? "high" : i % 6, i === 3 ? "" : i % 5, "", i % 2].join(","));
  const buffer = Buffer.from(`id,dose,pulse,empty,y\n${lines.join("\n")}\n`);
  await tab.locator("#file").setInputFiles({ name: "faulty.csv", mimeType: "text/csv", buffer });
  await said(tab, "Choose what to compute.");
  const remarks = await tab.locator("#columns .remark").allInnerTexts();
  assert.deepEqual(remarks.map((text) => text.split(/[,:.]/)[0]),
    ["Tells rows apart like an ID", "Has text among numbers", "Has no values"]);
  await tab.locator("#target").selectOption("y");
  await tab.locator("#missing").selectOption("refuse");
  await tab.locator("#go").click();
  const told = (await refusal(tab)).split("\n").filter((line) => line !== "");
  assert.match(told[0], /^faulty\.csv: 2 columns cannot be used/);
  assert.match(told[1], /"dose" has text among numbers, "high" on line 9: choose the type categories/);
  assert.match(told[2], /"pulse" lacks a value, first on line 5: choose a treatment of missing values/);
  await expectAccessible(tab, "with faults");
  await tab.getByLabel("Type of dose", { exact: true }).selectOption("categories");
  await tab.locator("#missing").selectOption("mean");
  await tab.locator("#coding summary").click();
  await tab.locator("#rare").fill("20");
  await look(tab, "9-options");
  await tab.locator("#go").click();
  assert.match(await refusal(tab), /AllRare.*"dose" has 20 rows/);
  await tab.getByRole("checkbox", { name: "dose", exact: true }).uncheck();
  await tab.locator("#go").click();
  await said(tab, "Planned.");
  assert.match(await tab.locator("#learns").innerText(), /40 rows, 1 columns of numbers, 2 classes/);
  await context.close();
});

/** Returns byte strings that must not be sent, with their names. */
function secrets(key, sealed, { weights }) {
  const needles = [["the passphrase", Buffer.from(PASSPHRASE)]];
  const header = Math.ceil((64 + Number(key.readBigUInt64LE(48)) + 32) / 64) * 64;
  for (const [name, file] of [["the key", key], ["the sealed key", sealed]]) {
    for (let i = 0; i < 64; i += 1) {
      // After the header, which names the parameters that all files have.
      const start = 64 + header + Math.floor((i * (file.length - header - 192)) / 64);
      const needle = file.subarray(start, start + 16);
      if (new Set(needle).size > 3) needles.push([`${name} at ${start}`, needle]);
    }
  }
  assert.ok(needles.length > 100);
  const lines = fs.readFileSync(LBW, "utf8").split(/\r?\n/).filter((line) => line.length >= 12);
  assert.ok(lines.length > 100);
  for (const line of lines) needles.push(["a row", Buffer.from(line)]);
  const numbers = lines[1].split(",").map(Number);
  const row = Buffer.alloc(24);
  numbers.slice(0, 3).forEach((x, i) => row.writeDoubleLE(x, 8 * i));
  needles.push(["numbers of a row", row]);
  for (const weight of weights) {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(weight);
    needles.push(["a weight", bytes], ["a weight as text", Buffer.from(String(weight))]);
  }
  return needles;
}

function expectAbsent(bodies, needles) {
  for (const [name, needle] of needles) {
    assert.ok(bodies.every((body) => !body.includes(needle)), `${name} was sent`);
  }
}

test("what was interrupted goes on after the page was closed", async () => {
  const { context, tab, problems } = await visit();
  await prepare(tab);
  const before = proxy.uploaded();
  const jobs = (await ask("/v1/jobs")).length;
  proxy.passing = 3;
  await send(tab);
  await tab.waitForFunction(() => document.getElementById("sent").value >= 3 * (8 << 20));
  await tab.reload();
  await seen(tab, "resume");
  await expectAccessible(tab, "on coming back");
  proxy.passing = Infinity;
  // A second tab is refused meanwhile.
  const other = await context.newPage();
  await other.goto(page.address);
  assert.match(await refusal(other), /another tab/);
  await other.close();

  await type(tab, "resume-token", token);
  await tab.keyboard.press("Enter");
  const total = await tab.evaluate(async () => {
    const job = await (await navigator.storage.getDirectory()).getDirectoryHandle("job");
    const size = async (name) => (await (await job.getFileHandle(name)).getFile()).size;
    return await size("evaluation.key") + await size("table.ct");
  });
  // Interrupt once more, after the job was submitted.
  await said(tab, "Computing");
  const sent = proxy.uploaded() - before;
  assert.ok(sent >= total && sent <= total + (8 << 20), `${sent} of ${total} bytes were sent`);
  await tab.reload();
  await seen(tab, "resume");
  await type(tab, "resume-token", token);
  await tab.keyboard.press("Enter");
  await seen(tab, "unseal");
  assert.equal(proxy.uploaded() - before, sent, "files were sent twice");
  assert.equal((await ask("/v1/jobs")).length, jobs + 1);

  await type(tab, "unseal-passphrase", "five random words");
  await tab.keyboard.press("Enter");
  assert.match(await refusal(tab), /WrongPassphrase/);
  await expectAccessible(tab, "after a mistake");
  await type(tab, "unseal-passphrase", PASSPHRASE);
  await tab.keyboard.press("Enter");
  await said(tab, "The model is decrypted.");
  assert.equal(await tab.locator("#report tbody tr").count(), 10);
  await chooseFile(tab, "table", LBW);
  await said(tab, "decrypted and measured");
  assert.equal(await tab.locator("#report svg[role=img]").count(), 5);
  assert.equal(JSON.parse(await given(tab)).columns.length, 9);
  await press(tab, "finish");
  await said(tab, "Choose a table.");
  assert.deepEqual(problems, []);
  await context.close();
});

test("tables are refused in words, and large ones get commands", async () => {
  const { context, tab } = await visit();
  await said(tab, "Choose a table.");
  const file = path.join(folder, "t.csv");
  const choose = async (text, target) => {
    fs.writeFileSync(file, text);
    await tab.locator("#file").setInputFiles([]);
    await tab.locator("#file").setInputFiles(file);
    if (target === undefined) return;
    await said(tab, "Choose what to compute.");
    await tab.locator("#target").selectOption(target);
    await tab.locator("#go").click();
  };
  await choose("a,b\n1\n");
  assert.match(await refusal(tab), /t\.csv.*line 2/);
  await choose("a,y\n1,1\n2,1\n", "y");
  assert.match(await refusal(tab), /ConstantTarget/);

  // With a byte order mark, quotes, text and gaps.
  const rows = Array.from({ length: 60 }, (_, i) =>
    `"ward ${"ABC"[i % 3]}";${i % 7 ? `${i % 11},5` : ""};${i % 2 ? "yes" : "no"}`);
  await choose(`\ufeff"ward";age;y\r\n${rows.join("\r\n")}\r\n`, "y");
  await said(tab, "Planned.");
  assert.match(await tab.locator("#learns").innerText(), /60 rows, 4 columns of numbers, 2 classes/);

  const names = Array.from({ length: 16 }, (_, i) => `x${i}`);
  const many = Array.from({ length: 240_000 }, (_, i) =>
    [...names.map((_, j) => (i * (j + 3)) % 101), i % 2].join(","));
  await choose([[...names, "y"].join(","), ...many].join("\n"), "y");
  await seen(tab, "large");
  await expectAccessible(tab, "with commands");
  const shown = await tab.locator("#commands").innerText();
  assert.match(shown, /^sudare keygen --params auto --for train:'t\.csv' --target 'y' --passphrase --out keys$/m);
  assert.equal(await tab.locator("#keys").isVisible(), false);
  // The same table by groups, with changed columns.
  await tab.locator("#job").selectOption("groups");
  await tab.locator("#by").selectOption("x0");
  await tab.getByRole("checkbox", { name: "x3", exact: true }).uncheck();
  await tab.getByLabel("Type of x1", { exact: true }).selectOption("categories");
  await tab.locator("#missing").selectOption("most_frequent");
  await tab.locator("#go").click();
  await tab.locator("#commands", { hasText: "groups:" }).waitFor({ timeout: MINUTES });
  const grouped = await tab.locator("#commands").innerText();
  const keygen = "sudare keygen --params auto --for groups:'t.csv' --by 'x0' --drop x3 --categorical x1 " +
    "--missing most-frequent --passphrase --out keys\n";
  assert.ok(grouped.startsWith(keygen), grouped);
  assert.match(grouped, /\nsudare encrypt --secret keys\/secret\.key --data 't\.csv' --by 'x0' -o table\.ct\n/);
  assert.match(grouped, /\nsudare remote groups .* -o groups\.ct /);
  await context.close();
});

test("an exported page is the same, to the last bit", async () => {
  const out = path.join(folder, "exported");
  sudare(SUDARE, folder, ["web", "--server", proxy.address, "--page", path.resolve(PAGE), "--export", out]);
  const index = fs.readFileSync(path.join(out, "index.html"), "utf8");
  const files = JSON.parse(fs.readFileSync(path.join(out, "manifest.json"), "utf8"));
  assert.deepEqual([...Object.keys(files), "manifest.json"].sort(), fs.readdirSync(out).sort());
  const integrity = (name) => {
    const hash = crypto.createHash("sha384").update(fs.readFileSync(path.join(out, name)));
    return `sha384-${hash.digest("base64")}`;
  };
  const named = [...index.matchAll(/(?:src|href)="([^"]+)" integrity="([^"]+)"/g)];
  assert.ok(named.length >= 5);
  for (const [, name, digest] of named) assert.equal(digest, integrity(name));
  assert.ok(index.includes(`name="module" content="${integrity("sudare_web_bg.wasm")}"`));
  for (const name of Object.keys(files).filter((name) => name !== "index.html")) {
    const served = await (await fetch(`${page.address}/${name}`)).arrayBuffer();
    const written = fs.readFileSync(path.join(out, name));
    assert.ok(Buffer.from(served).equals(written), name);
    assert.equal(files[name].bytes, written.length);
  }
  // A host without headers of its own. Then one of its files is altered.
  const host = await hosting(out);
  const { context, tab, problems } = await visit(host.address);
  await said(tab, "Choose a table.");
  fs.appendFileSync(path.join(out, "service.js"), "// altered\n");
  await tab.reload();
  await tab.waitForTimeout(1000);
  assert.equal(await tab.locator("#status").innerText(), "Loading…");
  assert.ok(problems.some((problem) => problem.includes("integrity")), problems.join("\n"));
  await context.close();
  host.close();
  assert.ok(!index.includes("{") && !files["worker.js"].content_security_policy.includes("connect-src"));
  assert.equal((await fetch(`${page.address}/../Cargo.toml`)).status, 404);
});
