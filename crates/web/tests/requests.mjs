// Requests of the page without a browser: files that must not leave, and answers of a hostile
// server.

import assert from "node:assert";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import test from "node:test";
import { commands } from "../page/commands.js";
import { Service } from "../page/service.js";

const TOKEN = "sudare_0123456789abcdef_secret";
globalThis.location = { origin: "http://127.0.0.1:1" };

/** A server that records all requests. */
async function listening(answer) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    requests.push({ method: request.method, url: request.url, body: Buffer.concat(chunks) });
    const { status, headers = {}, body = "" } = answer(request.method, request.url);
    response.on("error", () => {});
    response.writeHead(status, headers);
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${server.address().port}`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { requests, address, url: `http://${address}`, close };
}

const refusing = () => ({ status: 403, body: JSON.stringify({ kind: "Test", detail: "not here" }) });
const allowed = async () => {};
const file = new Blob([new Uint8Array(100)]);
const job = (state) => ({
  id: "ab", state, request: {}, progress: { done: 0, total: 1 }, predicted: { seconds: 1 },
  error: null, result: null,
});

test("no byte of a refused file leaves", async () => {
  const server = await listening(refusing);
  const check = async (collection, of) => {
    assert.equal(of, file);
    throw Object.assign(new Error(`not to ${collection}`), { name: "Usage" });
  };
  const service = new Service(server.url, TOKEN, check);
  for (const collection of ["keys", "tables", "models"]) {
    const upload = service.upload(collection, file, "0".repeat(64), () => {});
    await assert.rejects(upload, { name: "Usage", message: `not to ${collection}` });
    await assert.rejects(service.check([{ collection, file }]), { name: "Usage" });
  }
  assert.deepEqual(server.requests, []);
  const good = new Service(server.url, TOKEN, allowed);
  await assert.rejects(good.upload("keys", file, "0".repeat(64), () => {}), { name: "Test" });
  assert.equal(server.requests.length, 1);
  server.close();
});

test("uploads stay at the server", async () => {
  const other = await listening(refusing);
  for (const place of [
    `http://${other.address}/v1/uploads/0`, `@${other.address}/x`, `//${other.address}/v1/uploads/0`,
    "/v1/uploads/../keys", "/v1/uploads/", "/v1/keys/0", "",
  ]) {
    const server = await listening((method) => (method === "POST"
      ? { status: 201, headers: { location: place, "upload-offset": "0" } }
      : { status: 500 }));
    const service = new Service(server.url, TOKEN, allowed);
    const upload = service.upload("keys", file, "0".repeat(64), () => {});
    await assert.rejects(upload, /not to an upload of its own/);
    assert.deepEqual(server.requests.map(({ method }) => method), ["POST"]);
    server.close();
  }
  assert.deepEqual(other.requests, []);
  other.close();
});

test("answers without an end are refused", async () => {
  const long = "x".repeat(3 << 20);
  const server = await listening((_, url) => {
    if (url === "/v1/jobs/ab/events") return { status: 200, body: `data:${long}` };
    if (url === "/v1/jobs/cd") return { status: 200, body: `"${long.repeat(8)}"` };
    if (url.startsWith("/v1/results/")) {
      return { status: 206, headers: { "content-range": "bytes 0-9/10" }, body: long };
    }
    return { status: 200, body: JSON.stringify(job("running")) };
  });
  const service = new Service(server.url, TOKEN, allowed);
  await assert.rejects(service.wait("ab", () => {}), /an event without an end/);
  await assert.rejects(service.job("cd"), /too long/);
  await assert.rejects(service.result("0".repeat(64)), /longer than the 10 bytes/);
  for (const bad of ["../keys", "a/b", ""]) {
    await assert.rejects(service.job(bad), /neither the name of a job/);
    await assert.rejects(service.result(bad), /neither the name of a job/);
  }
  server.close();
});

test("no redirect is followed", async () => {
  const other = await listening(refusing);
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await listening((method, url) => (method === "POST" && url === "/v1/keys"
      ? { status: 201, headers: { location: "/v1/uploads/0", "upload-offset": "0" } }
      : { status, headers: { location: `${other.url}${url}` } }));
    const service = new Service(server.url, TOKEN, allowed);
    for (const ask of [
      () => service.job("ab"), () => service.submit({ kind: "stats" }), () => service.wait("ab", () => {}),
      () => service.result("ab"), () => service.cancel("ab"),
      () => service.upload("keys", file, "ab", () => {}), () => service.upload("tables", file, "ab", () => {}),
    ]) await assert.rejects(ask(), /redirects to another address/);
    server.close();
  }
  assert.deepEqual(other.requests, []);
  other.close();
});

test("commands quote the names of files and columns for a shell", () => {
  const words = ["--drop", "a,\"b, c\"", "--missing", "mean"];
  const job = { kind: "train", target: "it's", iterations: 3 };
  const [keygen, encrypt] = commands({ server: "https://s.example", file: "my visits.csv", job, words, summary: {} });
  assert.equal(keygen, "sudare keygen --params auto --for train:'my visits.csv' --target 'it'\\''s' " +
    "--iterations 3 --drop 'a,\"b, c\"' --missing mean --passphrase --out keys");
  assert.equal(encrypt,
    "sudare encrypt --secret keys/secret.key --data 'my visits.csv' --target 'it'\\''s' -o table.ct");
  const scoring = { classes: 3, unused: ["note", "a, b"] };
  const summary = { named: "predict:60x9", scoring };
  const scored = commands({ server: "", file: "new.csv", job: { kind: "predict" }, words: [], summary, model: "model.json" });
  assert.equal(scored[0], "sudare keygen --params auto --for predict:60x9 --classes 3 --passphrase --out keys");
  assert.match(scored[1], / --data 'new\.csv' --like 'model\.json' --drop 'note,"a, b"' -o table\.ct$/);
  assert.match(scored[3], /^sudare remote predict .* -i table\.ct --model model\.ct -o scores\.ct /);
});

/** The page's module, if it was built. */
const PAGE = process.env.PAGE && path.resolve(process.env.PAGE);

test("the module tells which files may leave", { skip: PAGE === undefined }, async () => {
  const { default: init, check } = await import(path.join(PAGE, "sudare_web.js"));
  const module_or_path = fs.readFileSync(path.join(PAGE, "sudare_web_bg.wasm"));
  await init({ module_or_path });
  const looked = (bytes, collection) => {
    let read = 0;
    const part = (start, length) => {
      const found = bytes.subarray(start, start + length);
      read += found.length;
      return new Uint8Array(found);
    };
    check(part, bytes.length, collection);
    return read;
  };
  const secret = Buffer.alloc(3000);
  secret.write("\x89sudare\n\x01\0\0\0\x01\0\x01\0", "latin1");
  for (const scheme of [1, 2, 3]) {
    secret[12] = scheme;
    assert.throws(() => looked(secret, "keys"), { name: "Usage", message: /secret key/ });
  }
  const sealed = Buffer.concat([Buffer.from("\x89sealed\n", "latin1"), secret]);
  assert.throws(() => looked(sealed, "models"), { name: "Usage", message: /secret key/ });
  for (const text of ["a,b\n1,2\n", "{}", "", "PAR1"]) {
    for (const collection of ["keys", "tables", "models"]) {
      assert.throws(() => looked(Buffer.from(text), collection), { name: "Usage" });
    }
  }
  assert.throws(() => looked(secret, "results"), { name: "Usage", message: /not a collection/ });
  for (const [name, collection] of [["KEYS", "keys"], ["TABLE", "tables"]]) {
    if (process.env[name] === undefined) continue;
    const bytes = fs.readFileSync(process.env[name]);
    assert.ok(looked(bytes, collection) < bytes.length);
    assert.throws(() => looked(bytes, collection === "keys" ? "tables" : "keys"));
  }
});
