// Sends a file by tus-js-client, and resumes an earlier run: `node upload.mjs URL FILE DIGEST NOTES [UNTIL]`.
//
// The client stores its uploads in the file NOTES. After UNTIL bytes the process kills itself, as in a power cut, in
// the middle of a chunk. Without UNTIL it prints the first byte that it sent. The environment has the token (TOKEN)
// and the directory of the npm packages (MODULES).

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const { TOKEN, MODULES } = process.env;
const { FileUrlStorage, Upload } = createRequire(`${path.resolve(MODULES)}/`)("tus-js-client");
const CHUNK_BYTES = 100_000;

const [endpoint, file, digest, notes, until = Infinity] = process.argv.slice(2);
let begunAt;
const upload = new Upload(fs.createReadStream(file), {
  endpoint,
  chunkSize: CHUNK_BYTES,
  headers: { Authorization: `Bearer ${TOKEN}` },
  metadata: { digest },
  urlStorage: new FileUrlStorage(notes),
  onProgress(sent) {
    begunAt ??= sent;
    if (sent >= until) process.kill(process.pid, "SIGKILL");
  },
  onError(error) { throw error; },
  onSuccess() { console.log(begunAt); },
});
const [before] = await upload.findPreviousUploads();
if (before) upload.resumeFromPreviousUpload(before);
upload.start();
