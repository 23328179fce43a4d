// Client of the service: uploads by tus 1.0, jobs, results. Repeats requests after broken connections.

/** Maximum bytes of one request. */
const CHUNK_BYTES = 8 << 20;
/** Milliseconds to wait for an unreachable server. */
const PATIENCE = 120_000;
/** Maximum bytes of an answer in JSON, and maximum characters of a line of an event. */
const MAX_ANSWER_BYTES = 16 << 20;
const MAX_EVENT = 1 << 20;
const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 10_000;

/** An error from the service, with its own name and message. */
export class Refused extends Error {
  constructor(kind, detail) {
    super(detail);
    this.name = kind;
  }
}

/** Growing pauses, up to a total time. */
class Patience {
  begun = performance.now();
  pause = FIRST_PAUSE;

  async wait(error) {
    if (performance.now() - this.begun > PATIENCE) throw error;
    await new Promise((resolve) => setTimeout(resolve, this.pause));
    this.pause = Math.min(LONGEST_PAUSE, 2 * this.pause);
  }
}

async function refusal(answer) {
  const unknown = { kind: "Http", detail: `the server answered ${answer.status} without a reason` };
  const { kind, detail } = await json(answer).catch(() => unknown) ?? unknown;
  return new Refused(String(kind ?? unknown.kind), String(detail ?? unknown.detail));
}

/** Parses the JSON of an answer. Stops reading if the answer is too long. */
async function json(answer) {
  let bytes = 0;
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of chunks(answer.body)) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Refused("Http", "the server's answer is too long");
    text += decoder.decode(chunk, { stream: true });
  }
  return JSON.parse(text + decoder.decode());
}

/** Returns a path from the server, if it is an upload at this server. */
function uploadPath(path) {
  if (/^\/v1\/uploads\/[0-9A-Za-z]+$/.test(path ?? "")) return path;
  throw new Refused("Http", `the server asks to send the file to ${path}, not to an upload of its own`);
}

/** Returns a digest or the name of a job, if it is safe in a path. */
function checked(name) {
  if (/^[0-9A-Za-z]+$/.test(name)) return name;
  throw new Refused("Http", `${name} is neither the name of a job nor a digest`);
}

async function expectSuccess(answer) {
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

const passes = (status) => [502, 503, 504].includes(status);

export class Service {
  #url;
  #token;
  #check;

  /** Creates a client. `check` refuses a file that may not be sent to a collection. */
  constructor(url, token, check) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#check = check;
  }

  async #ask(method, path, headers = {}, body = undefined) {
    const all = { authorization: `Bearer ${this.#token}`, ...headers };
    // Redirects are not followed: tokens and files go to the named server only.
    const redirect = "manual";
    const options = { method, headers: all, body, cache: "no-store", credentials: "omit", redirect };
    let answer;
    try {
      answer = await fetch(this.#url + path, options);
    } catch {
      throw new Refused("Unreachable", `${this.#url} does not answer, or does not allow ` +
        `${location.origin}: check that it runs with --allow-origin ${location.origin}`);
    }
    const redirects = answer.type === "opaqueredirect" || (answer.status >= 300 && answer.status < 400);
    if (redirects) throw new Refused("Http", `${this.#url} redirects to another address`);
    return answer;
  }

  /** Repeats a request until the server answers, and returns any answer. */
  async #untilAnswered(...request) {
    const patience = new Patience();
    for (;;) {
      try {
        const answer = await this.#ask(...request);
        if (!passes(answer.status)) return answer;
        await patience.wait(await refusal(answer));
      } catch (error) {
        if (error.name !== "Unreachable") throw error;
        await patience.wait(error);
      }
    }
  }

  /** Refuses files unless all of them may be sent. Each is an object of `collection` and `file`. */
  async check(files) {
    for (const { collection, file } of files) await this.#check(collection, file);
  }

  /** Sends a file, or the part that the service lacks. Calls `progress` with the bytes that the service
      has. */
  async upload(collection, file, digest, progress) {
    await this.#check(collection, file);
    let { place, sent } = await this.#begin(collection, file, digest);
    let patience = new Patience();
    while (sent < file.size) {
      progress(sent);
      try {
        const now = await this.#append(place, sent, file.slice(sent, sent + CHUNK_BYTES));
        if (!(now > sent)) {
          const error = new Refused("Http", "the server accepted no bytes of an upload");
          throw Object.assign(error, { passing: true });
        }
        sent = now;
        patience = new Patience();
      } catch (error) {
        if (!error.passing) throw error;
        await patience.wait(error);
        ({ place, sent } = await this.#begin(collection, file, digest));
      }
    }
    progress(sent);
  }

  /** Starts or resumes an upload. The offset is the file size if the service already has the file. */
  async #begin(collection, file, digest) {
    const headers = {
      "tus-resumable": "1.0.0",
      "upload-length": String(file.size),
      "upload-metadata": `digest ${btoa(digest)}`,
    };
    const answer = await expectSuccess(
      await this.#untilAnswered("POST", `/v1/${collection}`, headers));
    return { place: uploadPath(answer.headers.get("location")), sent: this.#offset(answer) };
  }

  async #append(place, offset, chunk) {
    const headers = {
      "tus-resumable": "1.0.0",
      "upload-offset": String(offset),
      "content-type": "application/offset+octet-stream",
    };
    let answer;
    try {
      answer = await this.#ask("PATCH", place, headers, chunk);
    } catch (error) {
      throw Object.assign(error, { passing: error.name === "Unreachable" });
    }
    if (answer.ok) return this.#offset(answer);
    const passing = [404, 408, 409, 423, 507].includes(answer.status) || answer.status >= 500;
    throw Object.assign(await refusal(answer), { passing });
  }

  #offset(answer) {
    const text = answer.headers.get("upload-offset");
    if (text === null) throw new Refused("Http", "the server does not state the offset of the upload");
    return Number(text);
  }

  /** Submits a job. A repeated request returns the earlier job, unless that failed. */
  async submit(request) {
    const body = JSON.stringify(request);
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
    const name = Array.from(new Uint8Array(hash), (b) => b.toString(16).padStart(2, "0")).join("");
    for (let attempt = 0; ; attempt += 1) {
      const headers = { "content-type": "application/json", "idempotency-key": `${name}-${attempt}` };
      const answer = await this.#untilAnswered("POST", "/v1/jobs", headers, body);
      const job = await json(await expectSuccess(answer));
      const ofUse = job.result ? await this.#hasResult(job.result) : !isFinal(job);
      if (ofUse) return job;
    }
  }

  async #hasResult(digest) {
    const range = { range: "bytes=0-0" };
    const answer = await this.#untilAnswered("GET", `/v1/results/${checked(digest)}`, range);
    if (answer.status === 404) return false;
    await (await expectSuccess(answer)).body?.cancel();
    return true;
  }

  async job(id) {
    return json(await expectSuccess(await this.#untilAnswered("GET", `/v1/jobs/${checked(id)}`)));
  }

  /** Cancels a job. */
  async cancel(id) {
    return json(await expectSuccess(await this.#untilAnswered("DELETE", `/v1/jobs/${checked(id)}`)));
  }

  /** Waits until a job has ended. Calls `progress` with its state. */
  async wait(id, progress) {
    let last = "0";
    let patience = new Patience();
    for (;;) {
      const answer = await expectSuccess(
        await this.#untilAnswered("GET", `/v1/jobs/${checked(id)}/events`, { "last-event-id": last }));
      try {
        for await (const [field, value] of fields(answer.body)) {
          if (field === "id") last = value;
          if (field !== "data") continue;
          const job = JSON.parse(value);
          progress(job);
          patience = new Patience();
          if (isFinal(job)) return job;
        }
      } catch (error) {
        if (error instanceof Refused) throw error;
        // The stream broke. The loop requests it again.
      }
      const job = await this.job(id);
      if (isFinal(job)) return job;
      await patience.wait(new Refused("Unreachable", "the stream of events ended"));
    }
  }

  /** Downloads a result. */
  async result(digest) {
    const parts = [];
    let have = 0;
    const patience = new Patience();
    for (;;) {
      const headers = { range: `bytes=${have}-` };
      const answer = await expectSuccess(
        await this.#untilAnswered("GET", `/v1/results/${checked(digest)}`, headers));
      const total = totalOf(answer, have);
      try {
        for await (const part of chunks(answer.body)) {
          if (have + part.length > total) {
            throw new Refused("Http", `the result is longer than the ${total} bytes that the server announced`);
          }
          parts.push(part);
          have += part.length;
        }
      } catch (error) {
        if (error instanceof Refused) throw error;
        // The received parts are kept.
      }
      if (have >= total) return new Uint8Array(await new Blob(parts).arrayBuffer());
      await patience.wait(new Refused("Unreachable", "the connection broke"));
    }
  }
}

/** Returns whether a job has ended. */
export function isFinal(job) {
  return !["queued", "running"].includes(job.state);
}

/** Returns the total size, from an answer with the bytes from `first` on. */
function totalOf(answer, first) {
  const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(answer.headers.get("content-range") ?? "");
  if (answer.status === 206 && range !== null && Number(range[1]) === first) return Number(range[2]);
  const length = answer.headers.get("content-length");
  if (answer.status === 200 && first === 0 && length !== null) return Number(length);
  throw new Refused("Http", "the server, or a proxy on the way, does not support range requests");
}

async function* chunks(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Yields the fields of server-sent events. */
async function* fields(body) {
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of chunks(body)) {
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split("\n");
    text = lines.pop();
    if (text.length > MAX_EVENT) throw new Refused("Http", "the server sends an event without an end");
    for (const line of lines) {
      const at = line.indexOf(":");
      if (at > 0) yield [line.slice(0, at), line.slice(at + 1).trim()];
    }
  }
}
