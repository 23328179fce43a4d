// Asynchronous functions of the Worker that holds the keys.

/** Starts the Worker. Each of its calls takes the arguments and a function for progress. */
export async function startOwner() {
  const integrity = document.querySelector("meta[name=module]").content;
  const fetched = await fetch("sudare_web_bg.wasm", { integrity });
  const module = await WebAssembly.compile(await fetched.arrayBuffer());
  const worker = new Worker("worker.js", { type: "module" });
  const waiting = new Map();
  let last = 0;
  worker.addEventListener("message", ({ data: { id, result, error, progress } }) => {
    const { resolve, reject, told } = waiting.get(id);
    if (progress !== undefined) return told(progress);
    waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(Object.assign(new Error(error.message), { name: error.kind }));
  });
  worker.addEventListener("error", (event) => {
    for (const { reject } of waiting.values()) reject(new Error(event.message || "the Worker cannot start"));
    waiting.clear();
  });
  const call = (name) => (args = {}, told = () => {}) =>
    new Promise((resolve, reject) => {
      last += 1;
      waiting.set(last, { resolve, reject, told });
      worker.postMessage({ id: last, call: name, args });
    });
  const owner = new Proxy({}, { get: (_, name) => (name === "then" ? undefined : call(name)) });
  await owner.start({ module });
  return owner;
}
