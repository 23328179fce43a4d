// A service behind a proxy that records traffic and breaks connections, and the server of the page.

import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import readline from "node:readline";

/** Runs the command. Passes `passphrase` through a file descriptor of its own. */
export function sudare(program, cwd, args, passphrase) {
  const stdio = ["ignore", "pipe", "pipe"];
  if (passphrase !== undefined) {
    const file = path.join(cwd, "words");
    fs.writeFileSync(file, `${passphrase}\n`);
    stdio.push(fs.openSync(file, "r"));
    args = [...args, "--passphrase-fd", "3"];
  }
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, stdio, encoding: "utf8" });
  if (status !== 0) throw new Error(`sudare ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** Starts a server of the command, and waits until it listens. */
export async function serving(program, cwd, args) {
  const child = spawn(program, [...args, "--json"], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (text) => { said += text; });
  const [line] = await Promise.race([
    new Promise((resolve) => readline.createInterface(child.stdout).once("line", (l) => resolve([l]))),
    new Promise((_, reject) => child.once("exit", () => reject(new Error(said)))),
  ]);
  const end = () => new Promise((resolve) => {
    child.once("exit", resolve);
    child.kill("SIGTERM");
  });
  return { address: JSON.parse(line).listening, end };
}

/** A proxy between the browser and a service. */
export class Proxy {
  /** The requests: method, path, body, and whether the request got an answer. */
  requests = [];
  /** Number of upload parts to pass before the connection breaks permanently. A fraction passes bytes
      of the next part. */
  passing = Infinity;

  /** The address of the service. It is set late, since the service needs the page's origin, and the page
      needs this proxy. */
  target;

  static async listening() {
    const proxy = new Proxy();
    proxy.server = http.createServer((request, answer) => proxy.pass(request, answer));
    await new Promise((resolve) => proxy.server.listen(0, "127.0.0.1", resolve));
    proxy.address = `http://127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  async pass(request, answer) {
    const { method, url, headers } = request;
    const taken = { method, url, headers, chunks: [], answered: false };
    this.requests.push(taken);
    if (method === "PATCH" && (this.passing -= 1) < 0) {
      request.socket.destroy();
      return;
    }
    const { hostname, port } = new URL(this.target);
    const onward = http.request({ hostname, port, method, path: url, headers }, (from) => {
      taken.answered = true;
      answer.writeHead(from.statusCode, from.headers);
      from.pipe(answer);
      answer.on("close", () => from.destroy());
    });
    onward.on("error", () => answer.destroy());
    request.on("data", (chunk) => taken.chunks.push(chunk));
    request.on("error", () => onward.destroy());
    request.pipe(onward);
  }

  /** Returns all request bodies. */
  bodies() {
    return this.requests.map(({ chunks }) => Buffer.concat(chunks));
  }

  /** Returns the bytes of all parts of uploads. */
  uploaded() {
    const parts = this.requests.filter(({ method }) => method === "PATCH");
    return parts.reduce((sum, { chunks }) => sum + chunks.reduce((s, c) => s + c.length, 0), 0);
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** Finds a file by its name in a directory, or below it. */
export function found(folder, name) {
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.name === name) return path.join(entry.parentPath, entry.name);
  }
  throw new Error(`there is no ${name} in ${folder}`);
}

/** A host of static files. */
export async function hosting(folder) {
  const types = {
    css: "text/css", html: "text/html", js: "text/javascript", json: "application/json",
    svg: "image/svg+xml", wasm: "application/wasm",
  };
  const server = http.createServer((request, answer) => {
    const { pathname } = new URL(request.url, "http://host");
    const file = path.join(folder, pathname.endsWith("/") ? `${pathname}index.html` : pathname);
    if (!fs.statSync(file, { throwIfNoEntry: false })?.isFile()) return answer.writeHead(404).end();
    const type = types[path.extname(file).slice(1)];
    return answer.writeHead(200, { "content-type": type }).end(fs.readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { address: `http://127.0.0.1:${server.address().port}`, close };
}

/** Downloads JSON over a new connection, since others may be closed while a command runs. */
export function json(address, headers) {
  return new Promise((resolve, reject) => {
    http.get(address, { agent: false, headers }, async (answer) => {
      const chunks = [];
      for await (const chunk of answer) chunks.push(chunk);
      resolve(JSON.parse(Buffer.concat(chunks)));
    }).on("error", reject);
  });
}
