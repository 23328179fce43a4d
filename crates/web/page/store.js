// The files of the job in the origin's private file system: the files for the server, the sealed key,
// and a record of the job's progress. The browser may evict them.

const FOLDER = "job";

/** Returns the directory of the files. */
export async function folder() {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(FOLDER, { create: true });
}

/** Returns a file, or `undefined` if it does not exist. */
export async function stored(name) {
  try {
    return await (await (await folder()).getFileHandle(name)).getFile();
  } catch (error) {
    if (error.name === "NotFoundError") return undefined;
    throw error;
  }
}

/** Returns the record of the job, if there is one. */
export async function readRecord() {
  const file = await stored("record.json");
  try {
    return file && JSON.parse(await file.text());
  } catch {
    return undefined;
  }
}

/** Removes all files. */
export async function forget() {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry(FOLDER, { recursive: true });
}
